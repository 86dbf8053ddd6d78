"""`flyball approve`: show the calls that wait for a person, let one run, refuse one."""

import argparse
import json
import sys
from typing import Any
from urllib.parse import quote

import httpx

from runtime.cli.admin_api import asked, client_of, date_of
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings

NAME = "approve"
HELP = "Show the calls that wait for a person; let one run, or refuse it."
_PATH = "/admin/v1/approvals"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add which call, and the answer."""
    parser.add_argument("id", nargs="?", help="which one to let run; without it, all are shown")
    parser.add_argument("--reject", action="store_true", help="refuse it instead")
    parser.add_argument("--reason", default="", metavar="TEXT", help="kept; the model reads a no's")


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do it and show the outcome."""
    if arguments.id is None and (arguments.reject or arguments.reason):
        raise RuntimeFaultError("which call? `flyball approve` shows the ids of those that wait")
    with client_of(settings) as client:
        if arguments.id is None:
            answer = {"items": _pending(client), "next": None}
        else:
            verb = "reject" if arguments.reject else "approve"
            path = f"{_PATH}/{quote(arguments.id, safe='')}/{verb}"
            answer = asked(client, "POST", path, json={"reason": arguments.reason})
    sys.stdout.write(json.dumps(answer) + "\n" if arguments.json else _text(answer))
    return 0


def _pending(client: httpx.Client) -> list[dict[str, Any]]:
    """Return all that wait, page by page, the one that has waited longest first."""
    items: list[dict[str, Any]] = []
    params = {"state": "pending"}
    while True:
        page = asked(client, "GET", _PATH, params=params)
        items.extend(page["items"])
        if page["next"] is None:
            return items[::-1]
        params["cursor"] = page["next"]


def _text(answer: dict[str, Any]) -> str:
    if "items" not in answer:
        return f"{answer['id']} is {answer['state']}.\n"
    return "".join(map(_line, answer["items"])) or "No call waits for a person.\n"


def _line(item: dict[str, Any]) -> str:
    # What an agent wrote is shown in ASCII: it must not steer the terminal that shows it.
    arguments = item["arguments"].encode("ascii", "backslashreplace").decode()
    shown = "".join(part if part.isprintable() else repr(part)[1:-1] for part in arguments)
    return (
        f"{item['id']}  {item['agent']}  {item['tool']}  "
        f"until {date_of(item['expires_at_ms'])}\n    {shown}\n"
    )
