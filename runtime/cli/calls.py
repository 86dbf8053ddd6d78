"""`flyball calls`: which calls ended, how, and what they were charged."""

import argparse
import json
import sys
from typing import Any
from urllib.parse import quote

from runtime.cli.admin_api import asked, client_of, date_of
from runtime.cli.call_cells import status_cell, tokens_of, took
from runtime.cli.call_pages import PATH, add_filters, filters_of, pages
from runtime.cli.counts import count
from runtime.cli.money import dollars
from runtime.cli.overview_text import sparks
from runtime.cli.showing import Cell, fields, figures, folding, note, table, words
from runtime.settings import Settings

_SHOWN = 50
_MIB = 1024 * 1024
_HEAD = (
    *words("call", "ended", "kind"),
    folding("name"),
    *words("agent"),
    folding("status"),
    *figures("took", "tokens", "cost"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which call, or which calls."""
    parser.add_argument("id", nargs="?", help="show this one call with all that is known of it")
    add_filters(parser)
    parser.add_argument(
        "--limit", type=count, metavar="N", default=_SHOWN, help=f"rows; default: {_SHOWN}"
    )
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
            path = f"{PATH}/{quote(arguments.id, safe='')}"
            answer = asked(client, "GET", path)
            if answer["has_curve"]:
                answer["curve"] = asked(client, "GET", f"{path}/curve")
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
    return [
        item["id"],
        date_of(item["ended_at_ms"]),
        item["kind"],
        item["name"],
        item["agent"],
        status_cell(item),
        took(item),
        tokens_of(item),
        dollars(charged["cost_microusd"]),
    ]


def _one(item: dict[str, Any]) -> str:
    """Return all that is known of a call, a line each; what is not known is left out."""
    usage = item["usage"] or {}
    isolated = item["isolated"]
    pairs: list[tuple[str, str | Cell | None]] = [
        ("call", item["id"]),
        ("status", status_cell(item)),
        ("what", f"{item['kind']} {item['name']} by {item['backend']}"),
        ("who", f"{item['tenant']} / {item['agent']} / {item['session']}"),
        ("turn", item["turn"]),
        ("began", date_of(item["started_at_ms"])),
        ("ended", f"{date_of(item['ended_at_ms'])}, after {took(item)}"),
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
        *_curve(item.get("curve")),
    ]
    return fields([(name, value) for name, value in pairs if value])


def _curve(curve: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return memory and processor time over the time of a local command, a line of columns each."""
    points = [] if curve is None else curve["points"]
    return [
        ("memory", sparks([point["memory_bytes"] // _MIB for point in points], unit=" MiB")),
        ("cpu", sparks([point["cpu_millis"] or 0 for point in points], unit=" m")),
    ]


def _amounts(amounts: dict[str, int]) -> str:
    return ", ".join(f"{amount} {unit}" for unit, amount in amounts.items() if amount)
