"""What a changed budget would have denied, as a terminal shows it."""

import argparse
import json
from collections.abc import Mapping
from typing import Any

import httpx

from governor.amounts import Unit
from runtime.cli import showing
from runtime.cli.admin_api import date_of, no_flyball, refused, unreached
from runtime.cli.money import dollars
from runtime.cli.overview_text import shown_amount
from runtime.cli.showing import Cell, Row, Tone, figures, folding, heading, note, table, words
from runtime.errors import RuntimeFaultError

_PATH = "/admin/v1/budgets/preview/whole"
_SECONDS_MAX = 120.0
_SHOWN = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which budget is looked at, and how it would be changed."""
    preview = parser.add_argument_group(
        "preview", "replays past calls against a budget; nothing is changed"
    )
    preview.add_argument("--preview", metavar="BUDGET", help="what this one would have denied")
    preview.add_argument(
        "--limits",
        type=limits,
        metavar="UNIT=N,…",
        help="had its limits been these; money in millionths of a dollar (cost_microusd)",
    )
    preview.add_argument(
        "--days", type=int, default=7, metavar="N", help="how far back; default: 7"
    )


def limits(text: str) -> dict[str, int]:
    """Return limits by unit.

    Raises:
        ArgumentTypeError: they are none.
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        unit, _, amount = part.partition("=")
        if unit not in set(Unit) or not (amount.isascii() and amount.isdigit()):
            known = ", ".join(unit.value for unit in Unit)
            raise argparse.ArgumentTypeError(f"{part!r} is no limit: say UNIT=N with {known}")
        found[unit] = int(amount)
    return found


def previewed(client: httpx.Client, arguments: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return what a budget would have denied, and how that is told.

    Raises:
        RuntimeFaultError: no sidecar answers, or it refuses.
    """
    body: dict[str, Any] = {"id": arguments.preview, "days": arguments.days}
    if arguments.limits is not None:
        body["change"] = {"limits": arguments.limits}
    answer = _replayed(client, body, f"Replaying the calls of {arguments.days} days")
    return answer, _text(arguments.preview, answer)


def _replayed(client: httpx.Client, body: dict[str, Any], what: str) -> dict[str, Any]:
    """Return what every call says, and show meanwhile how far it is."""
    told: dict[str, Any] = {}
    try:
        with client.stream("POST", _PATH, json=body, timeout=_SECONDS_MAX) as answer:
            if answer.is_error:
                answer.read()
                raise refused(client, answer)
            with showing.progress(what, total=1) as shown:
                done = 0
                for line in answer.iter_lines():
                    told = json.loads(line)
                    far = told.get("progress", {"calls": done, "permille": 1000})
                    # Nobody has counted them: as many as there are at this pace.
                    shown.expect(max(1, far["calls"] * 1000 // max(1, far["permille"])))
                    shown.advance(far["calls"] - done)
                    done = far["calls"]
    except httpx.TransportError as error:
        raise RuntimeFaultError(unreached(client, error)) from error
    except ValueError as error:
        raise RuntimeFaultError(no_flyball(client)) from error
    if "preview" not in told:
        detail = told.get("problem", {}).get("detail", "ask again")
        raise RuntimeFaultError(f"the preview broke off: {detail}")
    preview: dict[str, Any] = told["preview"]
    return preview


def _text(budget: str, answer: Mapping[str, Any]) -> str:
    after, before = answer["after"], answer["before"]
    told = note(
        f"{budget}, from {date_of(answer['from_ms'])} to {date_of(answer['until_ms'])}: "
        f"{after['denied']} of {after['calls']} calls denied, which cost "
        f"{dollars(after['denied_cost_microusd'])} then.",
        tone=Tone.WARN if after["denied"] else Tone.GOOD,
    )
    if before is not None:
        told += note(
            f"As it stands it denies {before['denied']}: {answer['newly_denied']} more would be "
            f"denied, {answer['no_longer_denied']} no longer."
        )
    told += "\n" + heading("The most that was used at once")
    head = (*words("unit"), *figures("limit", "used"), folding("by"))
    told += table(head, [_peak(peak) for peak in after["peaks"]], none="Nothing was used.")
    for name, what in (("by_subject", "Whom it would deny"), ("by_name", "What it would deny")):
        rows = [_tally(tally) for tally in after[name] if tally["denied"]][:_SHOWN]
        if rows:
            told += "\n" + heading(what)
            told += table((folding("name"), *figures("denied", "of calls")), rows, none="")
    notes = answer["unknown"]["notes"]
    return told + ("\n" if notes else "") + "".join(note(one, tone=Tone.FAINT) for one in notes)


def _peak(peak: Mapping[str, Any]) -> Row:
    tone = Tone.BAD if peak["used"] > peak["limit"] else Tone.PLAIN
    return [
        peak["unit"],
        shown_amount(peak["unit"], peak["limit"]),
        Cell(text=shown_amount(peak["unit"], peak["used"]), tone=tone),
        peak["subject"],
    ]


def _tally(tally: Mapping[str, Any]) -> Row:
    return [tally["name"], str(tally["denied"]), str(tally["calls"])]
