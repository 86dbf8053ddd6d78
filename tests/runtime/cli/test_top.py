"""`flyball top`: what the overview tells, and how it lives at a terminal."""

import http.server
import io
import json
import os
import pty
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.cli.overview_text import bar, lasting, overview_screen, overview_text, shown_amount
from tests.runtime.cli.conftest import Flyball

ROOT = Path(__file__).resolve().parents[3]
NOW_MS = 1_800_000_000_000
SECONDS_MAX = 60


def budget(budget_id: str, **more: Any) -> dict[str, Any]:
    return {
        "budget_id": budget_id,
        "tenant": "default",
        "scope": "tenant",
        "subject": "default",
        "session_name": None,
        "unit": "cost_microusd",
        "limit": 2_000_000,
        "used": 1_900_000,
        "reserved": 0,
        "remaining": 100_000,
        "burst": None,
        "kind": "allowance",
        "mode": "enforce",
        "is_quota": False,
        "resets_at_ms": None,
        "last_hour": 300_000,
        "per_hour": 1_200_000,
        "empties_at_ms": NOW_MS + 303_000,
        **more,
    }


def overview(budgets: int = 1, running: int = 1) -> dict[str, Any]:
    call = {
        "call_id": "call_1",
        "kind": "model",
        "name": "gpt-4o",
        "tenant": "default",
        "agent": "coder",
        "session": "ses_1",
        "session_name": "coder/refactor",
        "forwarded": True,
        "started_at_ms": NOW_MS - 12_300,
    }
    return {
        "at_ms": NOW_MS,
        "since_ms": NOW_MS - 3_600_000,
        "charges_since_ms": NOW_MS - 3_600_000,
        "minutes": [{"at_ms": 0, "calls": n, "denied": 0, "cost_microusd": 0} for n in (0, 1, 8)],
        "budgets": [budget(f"budget-{number}") for number in range(budgets)],
        "denials": [{"reason": "budget_exhausted", "count": 4, "last_at_ms": NOW_MS}],
        "running": [call] * running,
        "running_total": running + 5,
        "sessions_open": 3,
        "calls": {"ok": 10, "denied": 4},
        "cost_microusd": 1_234_567,
        "approvals_waiting": 1,
    }


@pytest.mark.requirement("commands.top")
def test_the_overview_tells_what_burns_what_runs_and_what_was_denied() -> None:
    told = overview_text(overview())

    assert "6 running, 3 sessions open  last hour: 14 calls, $1.2346" in told
    assert "calls a minute  ▁█ (at most 8)" in told
    assert "1 call waits for a person: `flyball approve` shows them" in told
    assert "$2.0000  $0.1000    $0.3000  5 min 3 s" in told
    assert "left  last hour   empty in" in told
    assert "Running (1 of 6)" in told
    assert "12.3 s  model  gpt-4o  coder/refactor  call_1" in told
    assert "budget_exhausted      4" in told


Terminal = Callable[[int], None]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Standard output is a terminal of so many columns."""

    def wide(columns: int) -> None:
        monkeypatch.setattr(sys, "stdout", TerminalOut())
        monkeypatch.setenv("TERM", "xterm-256color")
        monkeypatch.setenv("COLUMNS", str(columns))

    return wide


class TerminalOut(io.StringIO):
    """What says of itself that it is a terminal."""

    def isatty(self) -> bool:
        return True


def screen(lines: int, chars: int, **more: Any) -> list[str]:
    told = overview_screen(
        overview(budgets=50, running=50) | more,
        trouble="no sidecar answers; trying again",
        below="q ends it",
        lines_max=lines,
        chars_max=chars,
    )
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in told.splitlines()]


@pytest.mark.parametrize(
    ("lines", "chars"), [(1, 80), (5, 40), (14, 60), (23, 80), (60, 200), (23, 40), (14, 200)]
)
@pytest.mark.requirement("commands.top")
def test_the_screen_is_never_larger_than_the_terminal(
    lines: int, chars: int, terminal: Terminal
) -> None:
    terminal(chars)

    told = screen(lines, chars)

    assert len(told) <= lines
    assert max(map(len, told)) <= chars
    assert told[-1] == "q ends it"
    if lines >= 14:
        text = "\n".join(told)
        assert told[0].startswith("2027-01-15T08:00:00Z  55 running")
        for part in ("no sidecar answers", "Budgets (", "budget-0"):
            assert part in text
    if lines >= 23:
        for part in ("Running (", "gpt-4o", "Denied", "budget_exhausted"):
            assert part in text


@pytest.mark.requirement("commands.top")
def test_a_narrow_screen_keeps_what_is_left_of_a_budget_longest(terminal: Terminal) -> None:
    def heads(chars: int) -> str:
        terminal(chars)
        told = screen(23, chars)
        return " ".join(next(line for line in told if line.startswith("budget")).split())

    assert heads(110) == "budget whom unit used of left last hour empty in"
    assert heads(80) == "budget unit used left last hour empty in"
    assert heads(60) == "budget unit used left"


def test_nothing_at_all_is_told_as_such() -> None:
    empty = overview() | {"budgets": [], "running": [], "denials": [], "running_total": 0}

    told = overview_text(empty | {"calls": {}, "cost_microusd": None, "approvals_waiting": 0})

    assert "Budgets: none" in told
    assert "waits" not in told


def test_figures_of_less_than_an_hour_are_told_as_such() -> None:
    told = overview_text(overview() | {"since_ms": NOW_MS - 90_000, "minutes": []})

    assert "last 1 min 30 s: 14 calls" in told
    assert "calls a minute" not in told


def test_amounts_and_times_are_told_in_few_characters() -> None:
    assert [shown_amount("tokens", n) for n in (7, 9_999, 12_345, 2_000_000)] == [
        "7", "9999", "12.3 k", "2.0 M",
    ]  # fmt: skip
    assert shown_amount("cost_microusd", -20_000) == "-$0.0200"
    assert [lasting(n) for n in (-1, 1_500, 61_000, 3_661_000, 90_000_000)] == [
        "0.0 s", "1.5 s", "1 min 1 s", "1 h 1 min", "1 d 1 h",
    ]  # fmt: skip
    assert bar(0.99).startswith("█████████░")
    assert bar(1.7) == "██████████ 170 %"


class Sidecar(http.server.BaseHTTPRequestHandler):
    """Answers with the overview, then refuses to, then answers again."""

    asked = 0

    def do_GET(self) -> None:
        Sidecar.asked += 1
        body = json.dumps(overview()).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        # Every third answer breaks off.
        self.wfile.write(body if Sidecar.asked % 3 else b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def words(folder: Path) -> Iterator[tuple[str, ...]]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sidecar) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        where = f'[listen]\nadmin = "127.0.0.1:{server.server_port}"\n'
        (folder / "flyball.toml").write_text(where, encoding="utf-8")
        (folder / ".flyball").mkdir()
        (folder / ".flyball" / "admin.token").write_text("fbt_made-up\n", encoding="utf-8")
        Sidecar.asked = 0
        yield ("top", "--every", "0.2")
        server.shutdown()


@pytest.mark.requirement("commands.top")
def test_what_is_no_terminal_gets_the_overview_once(
    flyball: Flyball, words: tuple[str, ...]
) -> None:
    told, as_json = flyball(*words), flyball(*words, "--json")

    assert "\x1b" not in told.out
    assert told.out == overview_text(overview())
    assert json.loads(as_json.out) == overview()
    assert Sidecar.asked == 2


@pytest.mark.requirement("commands.top")
def test_at_a_terminal_it_lives_through_a_sidecars_silence_until_ctrl_c(
    words: tuple[str, ...],
) -> None:
    child, terminal = pty.fork()
    if child == 0:
        command = [sys.executable, "-m", "runtime", *words]
        shown = {"TERM": "xterm-256color", "COLUMNS": "120", "LINES": "30"}
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **shown}
        os.execve(sys.executable, command, environment)
    seen, until = b"", time.monotonic() + SECONDS_MAX
    try:
        # The trouble and, after it, the overview without it.
        while not (b"what answers at" in seen and Sidecar.asked > 6):
            assert time.monotonic() < until, seen[-2_000:]
            if select.select([terminal], [], [], 0.5)[0]:
                seen += os.read(terminal, 65_536)
        os.kill(child, signal.SIGINT)
        seen += _rest(terminal)
    finally:
        _, status = os.waitpid(child, 0)
        os.close(terminal)

    assert os.waitstatus_to_exitcode(status) == 0
    assert b"budget-0" in seen
    # The alternate screen is left, and the cursor is there again.
    assert seen.rstrip().endswith(b"\x1b[?1049l") or b"\x1b[?25h" in seen[-200:]
    assert b"Traceback" not in seen


def _rest(terminal: int) -> bytes:
    """Return what is said until the other end is closed."""
    said = b""
    try:
        while part := os.read(terminal, 65_536):
            said += part
    except OSError:
        pass  # Linux's way to say that the other end of a terminal is closed
    return said
