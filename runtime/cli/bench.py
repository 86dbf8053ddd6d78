"""`flyball bench`: how long a governed call takes on this machine."""

import argparse
import asyncio
import json
import secrets
import sys
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

from runtime.cli import showing
from runtime.cli.admin_api import asked, client_of, listen_of
from runtime.cli.agent_sessions import agent_sessions_of
from runtime.cli.bench_load import Outcome, Work, load
from runtime.cli.bench_sidecar import temporary_sidecar
from runtime.cli.counts import count
from runtime.cli.showing import Cell, Tone, figures, note, table
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings
from runtime.token_files import read_token, token_files

# It is admitted, charged and recorded like any other, and changes nothing.
_TOOL, _ARGUMENTS = "tools_search", {"query": "status"}
_CALLS = 500
_CALLERS = (1, 8)
_CALLERS_MAX = 256
_HEAD = figures("callers", "calls", "a second", "p50", "p90", "p99", "max", "denied", "failed")
_SESSIONS = "/admin/v1/sessions"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is called, and how often."""
    parser.add_argument("--calls", type=count, default=_CALLS, help=f"default: {_CALLS}")
    parser.add_argument(
        "--callers",
        type=_counts,
        default=_CALLERS,
        metavar="N,…",
        help="how many call at a time, one measurement for each; default: "
        + ",".join(map(str, _CALLERS)),
    )
    parser.add_argument("--tool", default=_TOOL, help=f"which one is called; default: {_TOOL}")
    parser.add_argument("--arguments", type=_object, metavar="JSON", help="what the tool is given")
    parser.add_argument(
        "--temporary",
        action="store_true",
        help="measure a sidecar that is started for this, with a budget, and gone afterwards",
    )
    parser.epilog = (
        "Each call is admitted, run, settled and recorded as an agent's would be, and charged to "
        "the budgets of the agent whose token is in the state directory. Times are a client's on "
        "this machine, which works beside the sidecar. `recorded` compares what was called with "
        "what the sidecar's books say."
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Measure and tell; return 1 where calls failed or the books differ, else 0.

    Raises:
        RuntimeFaultError: no sidecar answers.
    """
    session = f"bench-{secrets.token_hex(4)}"
    with ExitStack() as stack:
        if arguments.temporary:
            with showing.stages("Starting a sidecar"):
                settings = stack.enter_context(temporary_sidecar())
        url, token = _where(settings)
        of_default = _ARGUMENTS if arguments.tool == _TOOL else {}
        given = of_default if arguments.arguments is None else arguments.arguments
        outcomes = []
        for callers in arguments.callers:
            work = Work(
                url=url,
                token=token,
                session=session,
                tool=arguments.tool,
                arguments=given,
                calls=arguments.calls,
                callers=callers,
            )
            outcomes.append(_measured(work))
        books = _recorded(settings, session)
        with agent_sessions_of(settings) as sessions:
            sessions.close(session)
    asked_for = sum(arguments.calls + callers for callers in arguments.callers)
    is_whole = books == asked_for
    failed = sum(outcome.failed for outcome in outcomes)
    answer = {
        "ok": not failed and is_whole,
        "tool": arguments.tool,
        "session": session,
        "results": [outcome.shape() for outcome in outcomes],
        "called": asked_for,
        "recorded": books,
    }
    sys.stdout.write(json.dumps(answer) + "\n" if arguments.json else _text(answer))
    return 0 if answer["ok"] else 1


def _where(settings: Settings) -> tuple[str, str]:
    """Return where agents call, and the first agent's token."""
    listen = listen_of(settings.config)
    file = token_files(settings.state).agent
    token = read_token(file)
    if token is None:
        raise RuntimeFaultError(
            f"{file} cannot be read; name the sidecar's state directory with --state DIR, or "
            "measure a sidecar of its own with --temporary"
        )
    scheme = "http" if listen.tls_cert is None else "https"
    return f"{scheme}://{listen.agents}/mcp", token


def _measured(work: Work) -> Outcome:
    what = f"{work.callers} at a time" if work.callers > 1 else "One at a time"
    with showing.progress(what, total=work.calls) as done:
        return asyncio.run(load(work, done=done.advance))


def _recorded(settings: Settings, session: str) -> int | None:
    """Return how many calls of the session the books hold; None where nobody may look."""
    try:
        with client_of(settings) as client:
            for item in asked(client, "GET", _SESSIONS, params={"limit": 200})["items"]:
                if item["name"] == session:
                    path = f"{_SESSIONS}/{quote(item['id'], safe='')}"
                    total: int = asked(client, "GET", path)["bill"]["calls_total"]
                    return total
    except RuntimeFaultError:
        return None
    return 0


def _text(answer: dict[str, Any]) -> str:
    told = table(_HEAD, [_row(result) for result in answer["results"]], none="")
    faults = dict.fromkeys(fault for result in answer["results"] for fault in result["faults"])
    told += "".join(note(f"not run: {fault}", tone=Tone.WARN) for fault in faults)
    if answer["recorded"] is None:
        return told + note("Whether all are on record is not known: no administrator's token here.")
    if answer["recorded"] == answer["called"]:
        return told + note(f"All {answer['called']} calls are on record, warm-up included.")
    return told + note(
        f"{answer['called']} calls were made and {answer['recorded']} are on record.",
        tone=Tone.BAD,
    )


def _row(result: dict[str, Any]) -> list[str | Cell]:
    times = (result[name] for name in ("p50_ms", "p90_ms", "p99_ms", "max_ms"))
    return [
        str(result["callers"]),
        str(result["calls"]),
        f"{result['per_second']:.0f}" if result["per_second"] else "-",
        *("-" if time_ms is None else f"{time_ms:.2f} ms" for time_ms in times),
        Cell(text=str(result["denied"]), tone=Tone.WARN if result["denied"] else Tone.PLAIN),
        Cell(text=str(result["failed"]), tone=Tone.BAD if result["failed"] else Tone.PLAIN),
    ]


def _counts(text: str) -> tuple[int, ...]:
    found = tuple(count(part) for part in text.split(","))
    if max(found) > _CALLERS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r}: at most {_CALLERS_MAX} call at a time")
    return found


def _object(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r} is no JSON object")
    return found
