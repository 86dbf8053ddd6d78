"""`flyball sessions`: what sessions, agents, tools and task classes took and brought."""

import argparse
import json
import sys
from typing import Any

from governor.turn_policy import DEFAULT_CLASS
from memory_store.paging import PAGE_LIMIT_MAX
from runtime.cli import session_story
from runtime.cli.admin_api import asked, client_of, date_of
from runtime.cli.counts import count
from runtime.cli.money import dollars
from runtime.cli.showing import Cell, Tone, figures, note, table, words
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings

_PATH = "/admin/v1/metrics/productivity"
_SHOWN = 50
# The store's words, whose module takes a second to load.
_SESSION = "session"
GROUPINGS = (_SESSION, "agent", "tool", "task_class")
_NAME_CHARS = 32
_OUTCOMES = {
    True: Cell(text="solved", tone=Tone.GOOD),
    False: Cell(text="failed", tone=Tone.BAD),
    None: Cell(text="-"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to list, or which session, and what is done to it."""
    parser.add_argument(
        "session",
        nargs="?",
        help="show this one with all that happened in it: its id, or agent/name",
    )
    deeds = parser.add_mutually_exclusive_group()
    deeds.add_argument("--freeze", action="store_true", help="let it make no further calls")
    deeds.add_argument("--resume", action="store_true", help="let it go on")
    deeds.add_argument("--kill", action="store_true", help="end it, and what it runs")
    parser.add_argument(
        "--by",
        choices=GROUPINGS,
        default=_SESSION,
        help="one line for each of these; default: session, the newest first",
    )
    parser.add_argument("--tenant", help="only of this tenant")
    parser.add_argument("--agent", help="only of this agent")
    parser.add_argument(
        "--limit", type=count, metavar="N", default=_SHOWN, help=f"lines; default: {_SHOWN}"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """List them, or show one; return 0.

    Raises:
        RuntimeFaultError: no sidecar answers, or there is no such session.
    """
    deed = next((name for name in session_story.DEEDS if getattr(arguments, name)), None)
    if arguments.session is None and deed is not None:
        raise RuntimeFaultError(f"--{deed} which session? `flyball sessions` lists them")
    if arguments.session is not None:
        return _one(arguments, settings, deed)
    wanted = {"by": arguments.by, "tenant": arguments.tenant, "agent": arguments.agent}
    params = {name: value for name, value in wanted.items() if value is not None}
    items: list[dict[str, Any]] = []
    following: str | None = None
    with client_of(settings) as client:
        while len(items) < arguments.limit:
            size = min(arguments.limit - len(items), PAGE_LIMIT_MAX)
            more = {} if following is None else {"cursor": following}
            page = asked(client, "GET", _PATH, params={**params, **more, "limit": size})
            items += page["items"]
            following = page["next"]
            if following is None:
                break
    if arguments.json:
        sys.stdout.write(json.dumps({"items": items, "next": following}) + "\n")
    else:
        sys.stdout.write(_text(items, by=arguments.by, follows=following is not None))
    return 0


def _one(arguments: argparse.Namespace, settings: Settings, deed: str | None) -> int:
    with client_of(settings) as client:
        if deed is None:
            answer, told = session_story.story(client, arguments.session, limit=arguments.limit)
        else:
            answer, told = session_story.done(client, arguments.session, deed)
    sys.stdout.write(json.dumps(answer) + "\n" if arguments.json else told)
    return 0


def _text(items: list[dict[str, Any]], *, by: str, follows: bool) -> str:
    if not items:
        return note("Nothing was called yet.")
    is_session = by == _SESSION
    about = ("id", "class", "turns", "outcome") if is_session else ("sessions",)
    head = (
        *words(by.replace("_", " ")),
        *figures(*about, "tool calls", "useful", "redundant", "cost", "cost of pass", "energy"),
    )
    rows = [[*_about(item, is_session=is_session), *_figures(item)] for item in items]
    told = table(head, rows, none="") + note("~ energy is estimated from CPU time")
    return told + note("more follow: raise --limit") if follows else told


def _about(item: dict[str, Any], *, is_session: bool) -> list[str | Cell]:
    if not is_session:
        return [item["key"], str(item["sessions"])]
    session = item["session"]
    name = session["name"]
    shown = name if len(name) <= _NAME_CHARS else name[: _NAME_CHARS - 1] + "…"
    limit = session["turns_limit"]
    outcome = _OUTCOMES[session["success"]]
    return [
        f"{date_of(session['opened_at_ms'])} {session['agent']}/{shown}",
        session["id"],
        "-" if session["task_class"] == DEFAULT_CLASS else session["task_class"],
        f"{session['turns_used']}" + ("" if limit is None else f"/{limit}"),
        outcome,
    ]


def _figures(item: dict[str, Any]) -> list[str | Cell]:
    energy = item["energy"]
    return [
        str(item["tool_calls"]),
        _percent(item["useful_share"]),
        _percent(item["redundant_share"]),
        dollars(item["cost_microusd"]),
        dollars(item["cost_of_pass_microusd"]),
        f"~{energy['mj'] / 1000:.1f} J",
    ]


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"
