"""One session as a terminal shows it: its bill, its turns, and what happened in them."""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from memory_store.paging import PAGE_LIMIT_MAX
from runtime.cli import showing
from runtime.cli.admin_api import RefusedError, asked, date_of
from runtime.cli.call_cells import status_cell, tokens_of, took
from runtime.cli.money import dollars
from runtime.cli.showing import (
    Cell,
    Row,
    Tone,
    fields,
    figures,
    folding,
    heading,
    note,
    table,
    words,
)
from runtime.errors import RuntimeFaultError

_PATH = "/admin/v1/sessions"
# So many sessions are looked through for one that is named by what its agent calls it.
_LOOKED_MAX = 20 * PAGE_LIMIT_MAX
_HEAD = (
    *words("at"),
    *figures("turn"),
    folding("what"),
    folding("how"),
    *figures("took", "tokens", "cost"),
)
DEEDS = ("freeze", "resume", "kill")
_DONE = {
    "freeze": ("is frozen; local commands that stand still", "commands_frozen"),
    "resume": ("goes on; local commands that go on", "commands_resumed"),
    "kill": ("is ended; calls that ran", "calls_stopped"),
}


def id_of(client: httpx.Client, named: str) -> str:
    """Return the id of a session that is named by it, or as agent/name.

    Raises:
        RuntimeFaultError: there is none of that name.
    """
    agent, slash, name = named.partition("/")
    if not slash:
        return named
    params: dict[str, Any] = {"agent": agent, "limit": PAGE_LIMIT_MAX}
    looked = 0
    while looked < _LOOKED_MAX:
        page = asked(client, "GET", _PATH, params=params)
        for item in page["items"]:
            if item["name"] == name:
                return str(item["id"])
        looked += len(page["items"])
        if page["next"] is None:
            break
        params["cursor"] = page["next"]
    raise RuntimeFaultError(f"{agent} has no session {name}; `flyball sessions` lists them")


def story(client: httpx.Client, session: str, *, limit: int) -> tuple[dict[str, Any], str]:
    """Return what happened in a session, and how it is told.

    Raises:
        RuntimeFaultError: no sidecar answers, or there is no such session.
    """
    path = f"{_PATH}/{quote(id_of(client, session), safe='')}/timeline"
    answer: dict[str, Any] = {}
    items: list[dict[str, Any]] = []
    turns: dict[str, dict[str, Any]] = {}
    params: dict[str, Any] = {}
    with showing.progress("Reading what happened") as reading:
        while True:
            size = min(limit - len(items), PAGE_LIMIT_MAX)
            answer = asked(client, "GET", path, params={**params, "limit": size})
            items += answer["items"]
            turns |= {turn["turn"]: turn for turn in answer["turns"]}
            reading.advance(len(answer["items"]))
            if answer["next"] is None or len(items) >= limit:
                break
            params["cursor"] = answer["next"]
    answer |= {"items": items, "turns": list(turns.values())}
    return answer, _text(answer)


def done(client: httpx.Client, session: str, deed: str) -> tuple[dict[str, Any], str]:
    """Return a session after it was frozen, resumed or ended, and how that is told.

    Raises:
        RuntimeFaultError: no sidecar answers, or it refuses.
    """
    path = f"{_PATH}/{quote(id_of(client, session), safe='')}/{deed}"
    try:
        answer = asked(client, "POST", path)
    except RefusedError as error:
        if error.status == HTTPStatus.NOT_FOUND:
            raise
        told = f"{error}; `flyball sessions {session}` shows how it stands"
        raise RefusedError(told, status=error.status) from error
    words_of, counted = _DONE[deed]
    return answer, note(f"{answer['session']['id']} {words_of}: {answer[counted]}.")


def _text(answer: Mapping[str, Any]) -> str:
    session = answer["session"]
    numbers = {turn["turn"]: turn["number"] for turn in answer["turns"]}
    rows = [_row(item, numbers) for item in answer["items"]]
    told = fields([(name, value) for name, value in _about(session, answer) if value])
    told += "\n" + table(_HEAD, rows, none="Nothing has happened in it yet.")
    if answer["running"]:
        told += "\n" + heading("Running")
        head = (*words("since", "kind"), folding("name"), *words("call", "waits for"))
        told += table(head, [_running(one) for one in answer["running"]], none="")
    return told + note("more follow: raise --limit") if answer["next"] else told


def _about(session: Mapping[str, Any], answer: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    bill = session["bill"]
    calls = ", ".join(f"{count} {status}" for status, count in bill["calls"].items() if count)
    if session["closed_at_ms"] is not None:
        state = Cell(text=f"closed {date_of(session['closed_at_ms'])} by {session['closed_by']}")
    elif session["frozen_at_ms"] is not None:
        told = f"frozen {date_of(session['frozen_at_ms'])} by {session['frozen_by']}"
        state = Cell(text=told, tone=Tone.WARN)
    else:
        state = Cell(text="open", tone=Tone.GOOD)
    return [
        ("session", f"{session['agent']}/{session['name']}"),
        ("id", session["id"]),
        ("tenant", session["tenant"]),
        ("state", state),
        ("opened", date_of(session["opened_at_ms"])),
        ("part of", answer["parent"]),
        ("parts", ", ".join(answer["children"])),
        ("calls", calls),
        ("bill", dollars(bill["charged"]["cost_microusd"])),
        ("charged", ", ".join(f"{n} {unit}" for unit, n in bill["charged"].items() if n)),
        ("unmeasured", ", ".join(bill["unmeasured"])),
    ]


def _row(item: Mapping[str, Any], numbers: Mapping[str, int]) -> Row:
    at = date_of(item["at_ms"])
    if item["kind"] == "approval":
        one = item["approval"]
        by = f" by {one['decided_by']}" if one["decided_by"] else ""
        how = Cell(text=f"{one['state']}{by}", tone=Tone.WARN)
        return [at, "-", f"asked a person: {one['tool']}", how, "-", "-", "-"]
    if item["kind"] == "change":
        return [at, "-", item["action"], f"by {item['actor']}", "-", "-", "-"]
    call, model = item["call"], item["model"]
    turn = numbers.get(call["turn"])
    how = status_cell(call)
    if model is not None and model["tier"]:
        why = f" ({model['why'][0]})" if model["why"] else ""
        how = Cell(text=f"{how.text}, tier {model['tier']}{why}", tone=how.tone)
    return [
        at,
        "-" if turn is None else str(turn),
        call["name"],
        how,
        took(call),
        tokens_of(call),
        dollars(call["charged"]["cost_microusd"]),
    ]


def _running(one: Mapping[str, Any]) -> Row:
    since = date_of(one["started_at_ms"])
    return [since, one["kind"], one["name"], one["id"], one["approval"] or "-"]
