"""`flyball router`: train, list, show, promote and roll back what chooses tiers for `auto`."""

import argparse
import base64
import json
import re
import sys
from math import isfinite
from pathlib import Path
from typing import Any

import httpx

from governor.errors import TooFewOutcomesError
from memory_store.paging import PAGE_LIMIT_MAX
from runtime.cli import showing
from runtime.cli.admin_api import RefusedError, add_options, asked, client_of, date_of
from runtime.cli.showing import figures, table, words
from runtime.settings import Settings

_PATH = "/admin/v1/router"
_DECISIONS_MAX = 20_000
_UPLOAD_SECONDS_MAX = 120.0


_VERSION = re.compile(r"[0-9a-f]{12}")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one command for each thing that can be done."""
    deeds = parser.add_subparsers(title="what to do", metavar="DEED", dest="deed", required=True)
    train = deeds.add_parser("train", help="train a model from the log; it is a candidate then")
    train.add_argument(
        "--outcomes",
        type=Path,
        metavar="FILE.jsonl",
        help='recorded outcomes: {"id", "prompt", "tiers": {NAME: {"score", "cost"}}} a line',
    )
    train.add_argument("--since", type=int, default=0, metavar="MS", help="only what came later")
    train.add_argument("--seed", type=int, default=0, help="of the folds; default: 0")
    train.add_argument("--promote", action="store_true", help="promote it at once, if it is better")
    deeds.add_parser("list", help="list the models, the latest first")
    show = deeds.add_parser("show", help="show how the router stands, or one model")
    show.add_argument(
        "version", nargs="?", type=_version, help="the model; default: what is in force"
    )
    promote = deeds.add_parser("promote", help="put a model in force, if it is better")
    promote.add_argument("version", type=_version, help="the model")
    deeds.add_parser("rollback", help="put in force again what was before")
    add_options(deeds.choices.values())


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do it and tell what came of it; return 0.

    Raises:
        RuntimeFaultError: there is too little to train from, or it is refused.
    """
    with client_of(settings) as client:
        answer, text = _done(arguments, client)
    sys.stdout.write(json.dumps(answer) + "\n" if arguments.json else text)
    return 0


def _done(arguments: argparse.Namespace, client: httpx.Client) -> tuple[dict[str, Any], str]:
    match arguments.deed:
        case "train":
            return _trained(arguments, client)
        case "list":
            answer = asked(client, "GET", f"{_PATH}/models")
            return answer, _table(answer["items"])
        case "promote":
            return _promoted(client, arguments.version)
        case "rollback":
            answer = asked(client, "POST", f"{_PATH}/rollback")
            return answer, f"In force: {answer['incumbent'] or 'the tier rules'}.\n"
        case _:
            if arguments.version is not None:
                answer = asked(client, "GET", f"{_PATH}/models/{arguments.version}")
                return answer, _model(answer)
            answer = asked(client, "GET", _PATH)
            return answer, _standing(answer)


def _promoted(client: httpx.Client, version: str) -> tuple[dict[str, Any], str]:
    answer = asked(client, "POST", f"{_PATH}/models/{version}/promote")
    gain = answer["evidence"]["gain"]
    return answer, (
        f"In force: {answer['incumbent']}. On {answer['evidence']['n']} calls that it had not "
        f"learned from it is better by {gain['value']:+.4f} a call, and by {gain['ci95'][0]:+.4f} "
        "at the least (95 % sure). That is quality from 0 to 1, less what a call costs at the "
        "price that [router] puts on money.\n"
    )


def _trained(arguments: argparse.Namespace, client: httpx.Client) -> tuple[dict[str, Any], str]:
    # Only for this deed: what trains takes long to load.
    from runtime.router.model_file import packed  # noqa: PLC0415
    from runtime.router.predictor import fit  # noqa: PLC0415
    from runtime.router.training import (  # noqa: PLC0415
        TrainingError,
        file_rows,
        gain_on_file,
        log_rows,
    )
    from runtime.word_vectors import vectors_if_any  # noqa: PLC0415

    standing = asked(client, "GET", _PATH)
    log = log_rows(
        _decisions(client, since_ms=arguments.since),
        influence_per_day=standing["influence_per_day"],
    )
    file = None if arguments.outcomes is None else file_rows(arguments.outcomes)
    rows = [*log.rows, *(() if file is None else file.rows)]
    tiers = list(dict.fromkeys(tier for row in rows for tier in row.scores))
    if not rows:
        raise TrainingError(
            "no call that `auto` chose a tier for was rated yet: report outcomes with POST "
            "/v1/outcomes, or give --outcomes FILE.jsonl"
        )
    try:
        with showing.stages(f"Training on {len(rows)} outcomes"):
            model = fit(rows, tiers=tiers, vectors=vectors_if_any(), seed=arguments.seed)
    except TooFewOutcomesError as error:
        raise TrainingError(
            f"{error}; of {len(rows)} outcomes a tier has too few: let more be explored and rated, "
            "or give --outcomes FILE.jsonl"
        ) from error
    price = standing["price_per_microusd"]
    gain = None if file is None else gain_on_file(model, file.held_out, price=price)
    evidence: dict[str, Any] = {
        "tiers": tiers,
        "rows": {"log": len(log.rows), "outcomes": 0 if file is None else len(file.rows)},
        "held_out": {"log": log.held_out, "outcomes": 0 if file is None else len(file.held_out)},
        "seed": arguments.seed,
    }
    if gain is not None and isfinite(gain.low):
        evidence["outcomes"] = {"value": gain.value, "ci95": [gain.low, gain.high], "n": gain.n}
    answer = asked(
        client,
        "POST",
        f"{_PATH}/models",
        json={
            "content_base64": base64.b64encode(packed(model)).decode(),
            "learned_until_ms": log.until_ms,
            "evidence": evidence,
        },
        timeout=_UPLOAD_SECONDS_MAX,
    )
    text = (
        f"Trained {answer['version']} from {len(log.rows)} logged calls and "
        f"{evidence['rows']['outcomes']} recorded outcomes, for {', '.join(tiers)}.\n"
    )
    if arguments.promote:
        try:
            promoted, told = _promoted(client, answer["version"])
        except RefusedError as error:
            kept = f"{text}It is kept as a candidate. {error}\n"
            return {**answer, "promoted": None, "why_not": str(error)}, kept
        return {**answer, "promoted": promoted}, text + told
    return answer, (
        f"{text}It decides in the shadow: of one choice in ten it is noted what it would have "
        "taken, which changes nothing. Put it in force, if it is better, with: "
        f"flyball router promote {answer['version']}\n"
    )


def _decisions(client: httpx.Client, *, since_ms: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    following: str | None = None
    params: dict[str, Any] = {"since_ms": since_ms, "rated": True, "limit": PAGE_LIMIT_MAX}
    with showing.progress("Reading rated calls") as reading:
        while len(items) < _DECISIONS_MAX:
            more = {} if following is None else {"cursor": following}
            page = asked(client, "GET", f"{_PATH}/decisions", params={**params, **more})
            items += page["items"]
            reading.advance(len(page["items"]))
            following = page["next"]
            if following is None:
                break
    return items


def _table(items: list[dict[str, Any]]) -> str:
    rows = []
    for item in items:
        learned = item["evidence"].get("rows", {})
        learned_from = f"{learned.get('log', 0)} logged, {learned.get('outcomes', 0)} recorded"
        rows.append((item["version"], item["state"], date_of(item["created_at_ms"]), learned_from))
    head = words("version", "state", "trained", "from")
    return table(head, rows, none="No model was trained yet; the tier rules decide.")


def _model(answer: dict[str, Any]) -> str:
    evidence = answer["evidence"]
    rows, held_out = evidence.get("rows", {}), evidence.get("held_out", {})
    lines = [
        f"{answer['version']}: {answer['state']}, trained {date_of(answer['created_at_ms'])}",
        f"tiers: {', '.join(evidence.get('tiers', [])) or '-'}",
        f"learned from: {rows.get('log', 0)} logged calls, {rows.get('outcomes', 0)} recorded",
        f"judged on: {held_out.get('log', 0)} logged calls, {held_out.get('outcomes', 0)} recorded",
    ]
    if (gain := evidence.get("outcomes")) is not None:
        low, high = gain["ci95"]
        lines.append(
            f"gain on {gain['n']} recorded outcomes: {gain['value']:+.4f} a call, 95 % between "
            f"{low:+.4f} and {high:+.4f} (quality from 0 to 1, less the price of what it costs)"
        )
    return "\n".join(lines) + "\n"


def _standing(answer: dict[str, Any]) -> str:
    share = f"{100 * answer['explore_share']:g} %"
    doubt = "" if answer["is_usable"] else " (cannot be read: the tier rules decide)"
    lines = [
        f"mode {answer['mode']}, objective {answer['objective']}, up to {share} explored",
        f"in force: {answer['incumbent'] or 'the tier rules'}{doubt}",
        f"in the shadow: {answer['candidate'] or '-'}",
    ]
    rows = [
        (
            tier["tier"],
            *(str(tier[name]) for name in ("chosen", "rated", "explored")),
            f"{tier['evidence']:.1f}",
            str(tier["drifts"]),
        )
        for tier in answer["tiers"]
    ]
    head = (*words("tier"), *figures("chosen", "rated", "explored", "evidence", "drifts"))
    return "\n".join(lines) + "\n\n" + table(head, rows, none="There is no tier yet.")


def _version(text: str) -> str:
    if not _VERSION.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no version of a model: `flyball router list` shows them"
        )
    return text
