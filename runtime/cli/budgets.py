"""`flyball budgets`: how far every budget is used."""

import argparse
import json
import sys
from typing import Any

from governor.tracker import duration_words
from runtime.cli.admin_api import asked, client_of, date_of
from runtime.settings import Settings

NAME = "budgets"
HELP = "List budgets with what is used, held and left."
_PATH = "/admin/v1/balances"
_HEAD = ["budget", "scope", "whom", "unit", "limit", "used", "reserved", "remaining", "resets"]
_WORDS = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add whose budgets are wanted."""
    parser.add_argument("--tenant", help="only of this tenant")
    parser.add_argument("--agent", help="only those that this agent is charged to")
    parser.add_argument(
        "--session", help="only those that this session (`ses_…`, or agent/name) is charged to"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """List them; return 0."""
    wanted = {
        "tenant": arguments.tenant,
        "agent": arguments.agent,
        "session": arguments.session,
    }
    params = {name: value for name, value in wanted.items() if value is not None}
    with client_of(settings) as client:
        answer = asked(client, "GET", _PATH, params=params)
    sys.stdout.write(json.dumps(answer) + "\n" if arguments.json else _text(answer))
    return 0


def _text(answer: dict[str, Any]) -> str:
    items = answer["items"]
    if not items:
        return "No budget stands here yet.\n"
    rows = [_HEAD, *map(_row, items)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "  ".join(
            cell.ljust(width) if column < _WORDS else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    if answer["truncated"]:
        lines.append("more may follow: name a tenant, an agent or a session")
    return "\n".join(lines) + "\n"


def _row(item: dict[str, Any]) -> list[str]:
    marks = [
        *(["quota"] if item["is_quota"] else []),
        *([item["kind"]] if item["kind"] != "allowance" else []),
        *([item["mode"]] if item["mode"] != "enforce" else []),
    ]
    figures = (str(item[name]) for name in ("used", "reserved", "remaining"))
    resets = item["resets_at_ms"]
    return [
        item["budget_id"] + (f" ({', '.join(marks)})" if marks else ""),
        item["scope"],
        item["subject"] + (f" ({name})" if (name := item["session_name"]) else ""),
        item["unit"],
        _limit(item),
        *figures,
        "-" if resets is None else date_of(resets),
    ]


def _limit(item: dict[str, Any]) -> str:
    """Return the limit; a rate's with its time and what may come at once."""
    if item["burst"] is None:
        return str(item["limit"])
    return f"{item['limit']} in {duration_words(item['every_ms'])}, {item['burst']} at once"
