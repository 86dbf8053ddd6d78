"""`flyball calls`: which calls ended, how, and what they were charged."""

import argparse
import json
import sys
from typing import Any
from urllib.parse import quote

from governor.call import CallStatus
from runtime.cli.admin_api import asked, client_of, date_of
from runtime.cli.call_pages import PATH, add_filters, filters_of, pages
from runtime.cli.counts import count
from runtime.cli.money import dollars
from runtime.cli.showing import Cell, Tone, fields, figures, folding, note, table, words
from runtime.settings import Settings

_SHOWN = 50
_MS_PER_S = 1_000
_HEAD = (
    *words("call", "ended", "kind"),
    folding("name"),
    *words("agent"),
    folding("status"),
    *figures("took", "tokens", "cost"),
)
_TONES = {
    CallStatus.OK: Tone.GOOD,
    CallStatus.DENIED: Tone.WARN,
    CallStatus.CANCELLED: Tone.FAINT,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which call, or which calls."""
    parser.add_argument("id", nargs="?", help="show this one call with all that is known of it")
    add_filters(parser)
    parser.add_argument("--limit", type=count, default=_SHOWN, help=f"rows; default: {_SHOWN}")
    parser.epilog = (
        "Examples:\n\n"
        "  flyball calls --status denied --since 24h    what was refused, and why\n"
        "  flyball calls --kind model --agent coder     what an agent asked of models\n"
        "  flyball calls call_01a2…                     one call: usage, charge, limits, archive\n"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Show them; return 0.

    Raises:
        RuntimeFaultError: no sidecar answers, or there is no such call.
    """
    with client_of(settings) as client:
        if arguments.id is not None:
            answer = asked(client, "GET", f"{PATH}/{quote(arguments.id, safe='')}")
            text = _one(answer)
        else:
            found = list(pages(client, filters_of(arguments), limit=arguments.limit))
            items: list[dict[str, Any]] = [item for page, _ in found for item in page]
            following = found[-1][1]
            answer = {"items": items, "next": following}
            text = table(_HEAD, [_row(item) for item in items], none="No such call has ended.")
            text += note("more follow: raise --limit") if following is not None else ""
    sys.stdout.write(json.dumps(answer) + "\n" if arguments.json else text)
    return 0


def _row(item: dict[str, Any]) -> list[str | Cell]:
    charged = item["charged"]
    tokens = charged["input_tokens"] + charged["output_tokens"]
    return [
        item["id"],
        date_of(item["ended_at_ms"]),
        item["kind"],
        item["name"],
        item["agent"],
        _status(item),
        _took(item),
        str(tokens) if tokens else "-",
        dollars(charged["cost_microusd"]),
    ]


def _status(item: dict[str, Any]) -> Cell:
    status = CallStatus(item["status"])
    why = f": {item['denial']}" if item["denial"] else ""
    return Cell(text=f"{status.value}{why}", tone=_TONES.get(status, Tone.BAD))


def _took(item: dict[str, Any]) -> str:
    return f"{(item['ended_at_ms'] - item['started_at_ms']) / _MS_PER_S:.3f} s"


def _one(item: dict[str, Any]) -> str:
    """Return all that is known of a call, a line each; what is not known is left out."""
    usage = item["usage"] or {}
    isolated = item["isolated"]
    pairs: list[tuple[str, str | Cell | None]] = [
        ("call", item["id"]),
        ("status", _status(item)),
        ("what", f"{item['kind']} {item['name']} by {item['backend']}"),
        ("who", f"{item['tenant']} / {item['agent']} / {item['session']}"),
        ("turn", item["turn"]),
        ("began", date_of(item["started_at_ms"])),
        ("ended", f"{date_of(item['ended_at_ms'])}, after {_took(item)}"),
        ("detail", item["detail"]),
        ("arguments", item["arguments"]),
        ("rule", item["rule"]),
        ("charged", _amounts(item["charged"])),
        ("cost", dollars(item["charged"]["cost_microusd"])),
        ("estimated", _amounts(item["estimate"])),
        ("measured", _amounts(usage.get("measured", {}))),
        ("by guess", ", ".join(usage.get("estimated", []))),
        ("unmeasured", "; ".join(f"{u}: {why}" for u, why in usage.get("unmeasured", {}).items())),
        ("counted by", item["usage_source"]),
        ("isolated", isolated and f"{isolated['enforcement']} by {isolated['by']}"),
        ("archive", item["archive"]),
    ]
    return fields([(name, value) for name, value in pairs if value])


def _amounts(amounts: dict[str, int]) -> str:
    return ", ".join(f"{amount} {unit}" for unit, amount in amounts.items() if amount)
