"""`flyball tiers`: which tiers there are, and which of them are worth having."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from runtime.cli.admin_api import add_options, asked, client_of
from runtime.cli.showing import figures, folding, note, table, words
from runtime.settings import Settings

_PATH = "/admin/v1/router"
_MICRO = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is wanted."""
    deeds = parser.add_subparsers(title="what to do", metavar="DEED", dest="deed", required=True)
    deeds.add_parser("list", help="list the tiers with how often each was chosen and rated")
    advise = deeds.add_parser("advise", help="show the Pareto set and which tiers are dominated")
    advise.add_argument(
        "--outcomes",
        type=Path,
        metavar="FILE.jsonl",
        help="go by recorded outcomes instead of the log; no sidecar is asked",
    )
    advise.add_argument("--since", type=int, default=0, metavar="MS", help="only what came later")
    add_options(deeds.choices.values())


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Tell it; return 0.

    Raises:
        RuntimeFaultError: no sidecar answers, or the file cannot be read.
    """
    if arguments.deed == "advise" and arguments.outcomes is not None:
        answer = _of_file(arguments.outcomes)
    else:
        with client_of(settings) as client:
            path = f"{_PATH}/advice" if arguments.deed == "advise" else _PATH
            params = {"since_ms": arguments.since} if arguments.deed == "advise" else {}
            answer = asked(client, "GET", path, params=params)
    if arguments.deed == "list":
        answer = {"tiers": answer["tiers"]}
    told = json.dumps(answer) + "\n" if arguments.json else _text(answer, arguments.deed)
    sys.stdout.write(told)
    return 0


def _of_file(path: Path) -> dict[str, Any]:
    # Only for this: what reads outcomes takes long to load.
    from runtime.router.advice import advice_of_outcomes  # noqa: PLC0415
    from runtime.router.training import file_rows  # noqa: PLC0415

    read = file_rows(path)
    scores: dict[str, list[float]] = {}
    costs: dict[str, list[float]] = {}
    for row in (*read.rows, *read.held_out):
        for tier, score in row.scores.items():
            scores.setdefault(tier, []).append(score)
            costs.setdefault(tier, []).append(row.costs_microusd[tier])
    return advice_of_outcomes(scores, costs).shape()


def _text(answer: dict[str, Any], deed: str) -> str:
    if deed == "list":
        counted = ("chosen", "rated", "explored")
        rows = [[tier["tier"], *(str(tier[name]) for name in counted)] for tier in answer["tiers"]]
        head = (*words("tier"), *figures(*counted))
        return table(head, rows, none="There is no tier yet: [[tier]] in flyball.toml makes one.")
    head = (*words("tier"), *figures("n"), *words("quality", "cost of a call"), folding("standing"))
    told = table(head, [_row(tier) for tier in answer["tiers"]], none="Nothing is known of a tier.")
    return told + note(answer["too_thin"]) if answer["too_thin"] else told


def _row(tier: dict[str, Any]) -> tuple[str, str, str, str, str]:
    standing = tier["standing"]
    if tier["dominated_by"] is not None:
        standing += f": {tier['dominated_by']} is better and no dearer"
    quality = _figure(tier["quality"], 1, "{:.3f}")
    return (
        tier["tier"],
        str(tier["n"]),
        quality,
        _figure(tier["cost_microusd"], _MICRO, "${:.6f}"),
        standing,
    )


def _figure(estimate: dict[str, Any] | None, divisor: int, form: str) -> str:
    if estimate is None:
        return "-"
    low, high = estimate["ci95"]
    value = form.format(estimate["value"] / divisor)
    if low is None or high is None:
        return value
    return f"{value} [{form.format(low / divisor)}, {form.format(high / divisor)}]"
