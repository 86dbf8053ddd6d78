"""`flyball budgets`: how far every budget is used."""

import argparse
import json
import sys
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import httpx

from governor.tracker import duration_words
from memory_store.paging import PAGE_LIMIT_MAX
from runtime.cli import budget_preview, showing
from runtime.cli.admin_api import RefusedError, asked, client_of, date_of
from runtime.cli.showing import Cell, Row, Tone, figures, folding, heading, note, words
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings

_PATH = "/admin/v1/balances"
_TERMS_PATH = "/admin/v1/budgets"
_HEAD = (
    folding("budget"),
    *words("scope"),
    folding("whom"),
    *words("unit"),
    *figures("limit", "used", "reserved", "remaining", "resets"),
)
_TERMS_HEAD = (
    folding("budget"),
    *words("scope"),
    folding("whom"),
    folding("limits"),
    *words("window"),
)
# Less than so many parts of a limit left is worth a look.
_NEAR_PARTS = 10
_ROWS_MAX = 20_000
# There is one for each session, and seldom is it asked for them all.
_SESSION_ROWS = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add whose budgets are wanted."""
    parser.add_argument("--tenant", help="only of this tenant")
    parser.add_argument("--agent", help="only those that this agent is charged to")
    parser.add_argument(
        "--session", help="only those that this session (`ses_…`, or agent/name) is charged to"
    )
    parser.add_argument(
        "--scope", choices=["tenant", "agent", "session"], help="only budgets of this scope"
    )
    parser.add_argument("--budget", help="only this budget")
    budget_preview.add_arguments(parser)
    parser.epilog = (
        "Budgets that nobody used yet stand below, with their limits. With --json, `items` are "
        "balances and, unless --agent or --session is given, `budgets` the budgets as they were "
        "made.\n\n"
        "Examples:\n\n"
        "  flyball budgets --session coder/refactoring\n"
        "  flyball budgets --preview daily --limits tool_calls=200 --days 30\n"
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """List them; return 0."""
    wanted = {
        "tenant": arguments.tenant,
        "agent": arguments.agent,
        "session": arguments.session,
        "scope": arguments.scope,
        "budget": arguments.budget,
    }
    params = {name: value for name, value in wanted.items() if value is not None}
    if arguments.limits is not None and arguments.preview is None:
        raise RuntimeFaultError("--limits goes with --preview BUDGET, and changes nothing")
    with client_of(settings) as client:
        if arguments.preview is not None:
            answer, told = budget_preview.previewed(client, arguments)
            sys.stdout.write(json.dumps(answer) + "\n" if arguments.json else told)
            return 0
        answer = _listed(client, _PATH, params)
        # Who is named is shown what is unused too: only what each agent or session may have
        # for itself is nobody's balance as long as nobody uses it.
        if arguments.session is None and arguments.agent is None:
            answer["budgets"] = _terms(client, params, is_charged=bool(answer["items"]))
    is_named = arguments.session is not None or arguments.scope is not None
    sessions_max = _ROWS_MAX if is_named else _SESSION_ROWS
    told = json.dumps(answer) + "\n" if arguments.json else table(answer, sessions_max=sessions_max)
    sys.stdout.write(told)
    return 0


def _terms(
    client: httpx.Client, wanted: Mapping[str, Any], *, is_charged: bool
) -> list[dict[str, Any]]:
    """Return the budgets that are wanted as they were made, whether or not they are used.

    Raises:
        RefusedError: there is no such budget.
    """
    if "budget" not in wanted:
        items: list[dict[str, Any]] = _listed(client, _TERMS_PATH, wanted)["items"]
        return items
    try:
        found = asked(client, "GET", f"{_TERMS_PATH}/{quote(wanted['budget'], safe='')}")
    except RefusedError as error:
        # A quota has a balance, and is no budget.
        if is_charged and error.status == HTTPStatus.NOT_FOUND:
            return []
        raise
    filters = [name for name in ("tenant", "scope") if name in wanted]
    return [found] if all(found[name] == wanted[name] for name in filters) else []


def _listed(client: httpx.Client, path: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """Return everything of a listing, or as much as one may have."""
    items: list[dict[str, Any]] = []
    more: dict[str, Any] = {"limit": PAGE_LIMIT_MAX}
    with showing.progress("Asking for budgets") as asking:
        while True:
            page = asked(client, "GET", path, params={**params, **more})
            items += page["items"]
            asking.advance(len(page["items"]))
            if page["next"] is None or len(items) >= _ROWS_MAX:
                return {"items": items, "next": page["next"]}
            more["cursor"] = page["next"]


def table(answer: dict[str, Any], *, sessions_max: int) -> str:
    """Return the balances as a table, of sessions at most so many lines."""
    found = answer["items"]
    used = {item["budget_id"] for item in found}
    # What a cut listing does not name may be used all the same.
    terms = answer.get("budgets", []) if answer["next"] is None else []
    unused = [_terms_row(budget) for budget in terms if budget["id"] not in used]
    told = _balances(answer, sessions_max=sessions_max) if found else ""
    if unused:
        told += "\n" * bool(found) + heading("Nothing used yet")
        told += showing.table(_TERMS_HEAD, unused, none="")
    return told or note("No budget stands here yet.")


def _balances(answer: Mapping[str, Any], *, sessions_max: int) -> str:
    found = answer["items"]
    of_sessions = [item for item in found if item["scope"] == "session"]
    left_out = of_sessions[sessions_max:]
    items = [item for item in found if item["scope"] != "session"] + of_sessions[:sessions_max]
    told = showing.table(_HEAD, [_row(item) for item in items], none="")
    if left_out:
        shown = {item["subject"] for item in of_sessions[:sessions_max]}
        count = len({item["subject"] for item in left_out} - shown)
        least = "at least " if answer["next"] is not None else ""
        told += note(
            f"{least}{count} more sessions have balances of their own: list them with --scope "
            "session, or name one with --session"
        )
    elif answer["next"] is not None:
        told += note("more follow: name a tenant, an agent, a session or a budget")
    return told


def _named(name: str, item: Mapping[str, Any]) -> str:
    """Return the name of a budget, with what it is besides an allowance that is enforced."""
    marks = [
        *(["quota"] if item.get("is_quota") else []),
        *([item["kind"]] if item["kind"] != "allowance" else []),
        *([item["mode"]] if item["mode"] != "enforce" else []),
    ]
    return name + (f" ({', '.join(marks)})" if marks else "")


def _terms_row(budget: Mapping[str, Any]) -> Row:
    scope, tenant = budget["scope"], budget["tenant"]
    each = tenant if scope == "tenant" else f"each {scope.replace('_', ' ')} of {tenant}"
    limits = ", ".join(f"{limit} {unit}" for unit, limit in budget["limits"].items())
    at_once = "" if budget["burst"] is None else f", {budget['burst']} at once"
    return [
        _named(budget["id"], budget),
        scope,
        budget["subject"] or each,
        limits + at_once,
        _window(budget["window"]),
    ]


def _window(window: str | Mapping[str, Any]) -> str:
    """Return over which time limits hold."""
    if isinstance(window, str):
        return window
    if (seconds := window.get("every_s")) is not None:
        return f"every {duration_words(seconds * 1000)}"
    if (seconds := window.get("last_s")) is not None:
        return f"the last {duration_words(seconds * 1000)}"
    return ", ".join(str(part) for part in window.values())


def _row(item: dict[str, Any]) -> list[str | Cell]:
    resets = item["resets_at_ms"]
    return [
        _named(item["budget_id"], item),
        item["scope"],
        item["subject"] + (f" ({name})" if (name := item["session_name"]) else ""),
        item["unit"],
        _limit(item),
        str(item["used"]),
        str(item["reserved"]),
        Cell(text=str(item["remaining"]), tone=left_tone(item)),
        "-" if resets is None else date_of(resets),
    ]


def left_tone(item: dict[str, Any]) -> Tone:
    """Return what it means that so much of a limit is left."""
    if item["remaining"] <= 0:
        return Tone.BAD
    most = item["limit"] if item["burst"] is None else item["burst"]
    return Tone.WARN if item["remaining"] * _NEAR_PARTS < most else Tone.GOOD


def _limit(item: dict[str, Any]) -> str:
    """Return the limit; a rate's with its time and what may come at once."""
    if item["burst"] is None:
        return str(item["limit"])
    return f"{item['limit']} in {duration_words(item['every_ms'])}, {item['burst']} at once"
