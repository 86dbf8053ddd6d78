"""`flyball eval router --log`: what other ways to choose would have earned, by the stored log."""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from runtime.cli.admin_api import asked, client_of
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings

_PATH = "/admin/v1/router/evaluation"
_SECONDS_MAX = 300.0
_MICRO = 1_000_000
_LEGEND = (
    "value: quality from 0 to 1 less the price of the cost, a call, with its 95 % interval",
    "quality, cost: what a call would have scored and cost on average",
    "n eff.: as many calls of its own the log is worth for this way",
    "covered: share of its choices that the log could have made",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the log as what is evaluated."""
    parser.add_argument(
        "--log",
        action="store_true",
        help="evaluate what is in force, candidates, each tier and the dice by the stored log",
    )
    parser.add_argument(
        "--since", type=int, default=0, metavar="MS", help="with --log: only what came later"
    )


def run_either(
    arguments: argparse.Namespace, settings: Settings, *, of_file: Callable[[], int]
) -> int:
    """Print the evaluation of the log, or with `of_file` that of recorded outcomes; return 0.

    Raises:
        RuntimeFaultError: both are named, or neither.
    """
    if arguments.log == (arguments.outcomes is not None):
        raise RuntimeFaultError("eval router: give either --outcomes FILE.jsonl or --log")
    return run(arguments, settings) if arguments.log else of_file()


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the evaluation of the log; return 0.

    Raises:
        RuntimeFaultError: no sidecar answers.
    """
    with client_of(settings) as client:
        params = {"since_ms": arguments.since}
        answer = asked(client, "GET", _PATH, params=params, timeout=_SECONDS_MAX)
    sys.stdout.write(json.dumps(answer) + "\n" if arguments.json else _text(answer))
    return 0


def _text(answer: dict[str, Any]) -> str:
    head = f"{answer['n']} rated decisions of {answer['sessions']} sessions."
    if answer["too_thin"]:
        return f"{head}\n{answer['too_thin']}\n"
    lines = [
        head,
        f"Earned in fact: {_figure(answer['earned'])} a call, after what it cost.",
        "",
        f"{'way':<24}{'value (doubly robust)':<30}{'quality':>9}{'cost':>12}{'n eff.':>8}  covered",
    ]
    for way in answer["policies"]:
        doubt = "" if way["is_known"] else "  too little to say"
        quality, cost = way["quality"]["value"], way["cost_microusd"]["value"]
        lines.append(
            f"{way['name']:<24}{_figure(way['value']):<30}"
            f"{'-' if quality is None else format(quality, '.3f'):>9}"
            f"{'-' if cost is None else _dollars(cost):>12}{way['value']['effective']:>8.0f}"
            f"{100 * way['value']['covered']:>7.0f} %{doubt}"
        )
    lines += ["", *_LEGEND]
    shadow = answer["shadow"]
    if shadow["n"]:
        lines += ["", f"The shadow agreed in {100 * shadow['agreement']:.0f} % of {shadow['n']}."]
    return "\n".join(lines) + "\n"


def _dollars(microusd: float) -> str:
    return f"${microusd / _MICRO:.6f}"


def _figure(estimate: dict[str, Any]) -> str:
    low, high = estimate["ci95"]
    if estimate["value"] is None:
        return "-"
    if low is None or high is None:
        return f"{estimate['value']:+.4f}"
    return f"{estimate['value']:+.4f} [{low:+.4f}, {high:+.4f}]"
