"""`flyball approve`: show the calls that wait for a person, let one run, refuse one."""

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from runtime.cli.admin_api import RefusedError, asked, client_of, date_of
from runtime.cli.showing import fields, heading
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings

_PATH = "/admin/v1/approvals"
_SESSIONS = "/admin/v1/sessions"
# Each name is one question to the sidecar; the sessions beyond are shown by their ids.
_SESSIONS_NAMED_MAX = 50
# How the name of a rule says that a flow rule asks, and why.
_BY_FLOW = re.compile(r"\(flow (?P<rule>[^:]+): (?P<why>.*)\)$", re.DOTALL)
# How it says that a command has run out of memory, and which.
_BY_MEMORY = re.compile(r" \(memory of (?P<command>.*)\)$", re.DOTALL)
_NOTHING_WAITS = "No call waits for a person.\n"
_STATES = {"rejected": "refused", "used": "approved, and its call has run"}


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
            items = _pending(client)
            answer = {"items": items, "next": None}
            names = {} if arguments.json else _session_names(client, items)
            text = "".join(_lines(item, names) for item in items)
            text = f"{text}{_how_to_answer(items[0]['id'])}" if items else _NOTHING_WAITS
        else:
            answer = _answered(client, arguments)
            text = f"{answer['id']} is {answer['state']}.\n"
    sys.stdout.write(json.dumps(answer) + "\n" if arguments.json else text)
    return 0


def _answered(client: httpx.Client, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the approval after the answer.

    Raises:
        RuntimeFaultError: there is no such question, or it was answered before.
    """
    path = f"{_PATH}/{quote(arguments.id, safe='')}"
    verb = "reject" if arguments.reject else "approve"
    try:
        return asked(client, "POST", f"{path}/{verb}", json={"reason": arguments.reason})
    except RefusedError as error:
        if error.status != HTTPStatus.CONFLICT:
            raise
        stands = asked(client, "GET", path)
        by = "" if stands["decided_by"] is None else f" by {stands['decided_by']}"
        at = "" if stands["decided_at_ms"] is None else f" at {date_of(stands['decided_at_ms'])}"
        state = _STATES.get(stands["state"], stands["state"])
        raise RuntimeFaultError(f"{stands['id']} is already {state}{by}{at}") from error


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


def _session_names(client: httpx.Client, items: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return what agents call the sessions of `items`, by id; not of one that is gone."""
    names: dict[str, str] = {}
    for session in list(dict.fromkeys(item["session"] for item in items))[:_SESSIONS_NAMED_MAX]:
        try:
            found = asked(client, "GET", f"{_SESSIONS}/{quote(session, safe='')}")
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
        else:
            names[session] = found["name"]
    return names


def _lines(item: dict[str, Any], names: Mapping[str, str]) -> str:
    session = _shown(names.get(item["session"]) or item["session"])
    until = date_of(item["expires_at_ms"])
    why, arguments = _shown(_why(item["rule"])), _shown(item["arguments"])
    if sys.stdout.isatty():
        pairs = [("until", until), ("session", session), ("why", why), ("arguments", arguments)]
        return heading(f"{item['id']}  {item['agent']}  {item['tool']}") + fields(pairs) + "\n"
    return (
        f"{item['id']}  {item['agent']}  {item['tool']}  until {until}\n"
        f"    session {session}; {why}\n"
        f"    {arguments}\n"
    )


def _how_to_answer(approval: str) -> str:
    return (
        f"Yes: flyball approve {approval}\nNo:  flyball approve {approval} --reject --reason TEXT\n"
    )


def _why(rule: str) -> str:
    """Return why a person is asked, in words, by the name of the rule that asks."""
    flow = _BY_FLOW.search(rule)
    if flow is not None:
        return f"asked because of flow rule {flow['rule']}: {flow['why']}"
    memory = _BY_MEMORY.search(rule)
    if memory is not None:
        return f"asked because its command is out of memory: {memory['command']}"
    named = "[default]" if rule == "default" else f"rule {rule}"
    return f"asked because {named} wants a person's yes"


def _shown(text: str) -> str:
    # What an agent wrote is shown in ASCII: it must not steer the terminal that shows it.
    ascii_only = text.encode("ascii", "backslashreplace").decode()
    return "".join(part if part.isprintable() else repr(part)[1:-1] for part in ascii_only)
