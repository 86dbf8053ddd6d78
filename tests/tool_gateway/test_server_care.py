"""The care for upstream servers: rests, checks, bounds, ends; against real processes."""

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest
from scenarios.process import is_alive

from governor.ids import SessionId, ToolName, UpstreamName
from tests.tool_gateway.makers import LIMITS, a_call
from tests.tool_gateway.placement import Unfenced
from tool_gateway.errors import UpstreamFailedError, UpstreamNotReachedError
from tool_gateway.exchange import Nobody
from tool_gateway.ports import Meter
from tool_gateway.stock import Stock
from tool_gateway.upstreams import connection, sessions
from tool_gateway.upstreams.connection import UpstreamConnection
from tool_gateway.upstreams.fleet import UpstreamFleet
from tool_gateway.upstreams.spec import Health, Share, StdioSpec
from tool_gateway.upstreams.standing import UpstreamState
from tool_gateway.upstreams.vitals import EndCause

pytestmark = pytest.mark.anyio

SERVER = (sys.executable, str(Path(__file__).parent / "servers" / "stdio.py"))
LOCAL = UpstreamName("local")
SPEC = StdioSpec(name=LOCAL, command=SERVER)
# Real processes on a busy machine; nothing here waits that long when all is well.
SECONDS_MAX = 60


@pytest.fixture(autouse=True)
def restart_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PAUSE_SECONDS_MIN", 0.01)
    monkeypatch.setattr(connection, "READY_SECONDS_MAX", float(SECONDS_MAX))


@dataclass
class Placement(Unfenced):
    """Starts servers as they are and notes which were ended."""

    started: dict[str, int] = field(default_factory=dict)
    ended: list[str] = field(default_factory=list)

    def server_started(self, name: str, pid: int) -> None:
        self.started[name] = pid

    async def server_processes(self, name: str) -> tuple[int, ...]:
        return (self.started[name],)

    async def end_server(self, name: str) -> None:
        self.ended.append(name)


class Cared:
    """A fleet of one upstream."""

    def __init__(self, spec: StdioSpec) -> None:
        self.placement = Placement()
        self.stock = Stock(())
        self.fleet = UpstreamFleet([spec], placement=self.placement, stock=self.stock)
        self.relay = self.fleet.relays[LOCAL]

    @property
    def upstream(self) -> UpstreamConnection:
        return self.fleet.connections[0]

    async def call(
        self,
        tool: str,
        *,
        session: str | None = None,
        wall_ms: int = 60_000,
        **arguments: object,
    ) -> str:
        call = replace(a_call(**arguments), tool=ToolName(f"local__{tool}"))
        exchange = Nobody()
        exchange.session = None if session is None else SessionId(session)
        backend = self.relay.backend_for(exchange)
        outcome = await backend.run(call, replace(LIMITS, wall_ms=wall_ms), Meter())
        return outcome.result.sole_text or ""

    async def reaches(self, state: UpstreamState) -> None:
        while self.upstream.state is not state:
            await anyio.sleep(0.01)


@asynccontextmanager
async def cared_for(spec: StdioSpec) -> AsyncIterator[Cared]:
    cared = Cared(spec)
    with anyio.fail_after(SECONDS_MAX):
        async with cared.fleet.connected():
            yield cared


@pytest.mark.requirement("upstream.lines-are-bounded")
async def test_a_line_without_an_end_fails_its_call_says_why_and_restarts_the_server() -> None:
    async with cared_for(replace(SPEC, line_bytes_max=1_000_000)) as cared:
        before = cared.upstream.vitals.pid
        with pytest.raises(UpstreamFailedError, match="a line of more than 1000000 bytes"):
            await cared.call("flood", mib=64)
        after = await cared.call("echo", text="back")
        ended = cared.upstream.vitals.last_end

    assert after == "back"
    assert ended is not None
    assert ended.cause is EndCause.LINE_TOO_LONG
    assert before is not None
    assert not is_alive(before)


async def test_what_is_no_message_is_kept_for_its_operator_and_harms_no_call() -> None:
    async with cared_for(SPEC) as cared:
        babbled = await cared.call("babble")
        after = await cared.call("pid")
        lines = cared.upstream.vitals.stderr.lines()

    assert babbled == "babbled"
    assert after == str(cared.placement.started[LOCAL])
    assert "(no message) DEBUG token=[redacted]" in lines


@pytest.mark.requirement("upstream.idle-rests")
async def test_a_server_that_nobody_uses_is_stopped_and_started_by_the_next_call() -> None:
    async with cared_for(replace(SPEC, idle_ms=100)) as cared:
        listed = {entry.exposed for entry in cared.stock.catalog}
        first = int(await cared.call("pid"))
        await cared.reaches(UpstreamState.IDLE)
        while is_alive(first):
            await anyio.sleep(0.01)
        while_idle = {entry.exposed for entry in cared.stock.catalog}
        while (cause := cared.upstream.vitals.last_end) is None:
            await anyio.sleep(0.01)
        async with anyio.create_task_group() as tasks:  # several at once wake it once
            for _ in range(3):
                tasks.start_soon(cared.call, "pid")
        starts = cared.upstream.vitals.starts

    assert "local__echo" in listed
    assert while_idle == listed
    assert cause.cause is EndCause.IDLE
    assert starts == 2


@pytest.mark.requirement("upstream.idle-rests")
async def test_a_server_at_work_or_watched_is_not_put_to_rest() -> None:
    async with cared_for(replace(SPEC, idle_ms=200)) as cared:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cared.call, "wait")
            await anyio.wait_all_tasks_blocked()
            await cared.reaches(UpstreamState.READY)
            with anyio.move_on_after(0.6):
                await cared.reaches(UpstreamState.IDLE)
            state_at_work = cared.upstream.state
            cared.upstream.listener._watched.add("file:///watched")
            tasks.cancel_scope.cancel()
        with anyio.move_on_after(0.6):
            await cared.reaches(UpstreamState.IDLE)
        state_watched = cared.upstream.state

    assert (state_at_work, state_watched) == (UpstreamState.READY, UpstreamState.READY)


async def test_a_resting_server_that_cannot_start_any_more_is_down_and_not_waited_for(
    tmp_path: Path,
) -> None:
    broken = tmp_path / "broken"
    script = f"[ -e {broken} ] && {{ echo no licence >&2; exit 5; }}; exec {' '.join(SERVER)}"
    spec = replace(SPEC, command=("/bin/sh", "-c", script), idle_ms=50)
    async with cared_for(spec) as cared:
        await cared.reaches(UpstreamState.IDLE)
        broken.touch()
        with pytest.raises(UpstreamNotReachedError, match="no licence"):
            await cared.call("pid")
        ended = cared.upstream.vitals.last_end

    assert ended is not None
    assert (ended.cause, ended.exit_code) == (EndCause.START_FAILED, 5)


async def test_a_server_that_gave_up_for_want_of_processes_is_told_by_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Placement, "server_refused", lambda *_: "the limit on pids of its table")
    spec = replace(SPEC, command=("/bin/sh", "-c", "echo Traceback >&2; exit 1"))
    async with cared_for(spec) as cared:
        with pytest.raises(UpstreamNotReachedError, match="the limit on pids of its table"):
            await cared.call("pid")


@pytest.mark.requirement("upstream.hung-is-restarted")
async def test_a_server_that_hangs_is_found_by_its_health_checks_and_restarted() -> None:
    health = Health(every_ms=100, timeout_ms=2_000, failures_max=2)
    async with cared_for(replace(SPEC, health=health)) as cared:
        before = await cared.call("pid")
        await cared.call("hang")
        while cared.upstream.vitals.starts < 2:
            await anyio.sleep(0.02)
        after = await cared.call("pid")
        ended = cared.upstream.vitals.last_end

    assert before != after
    assert ended is not None
    assert ended.cause is EndCause.UNHEALTHY
    assert "2 health checks or calls in a row" in ended.why
    assert not is_alive(int(before))


@pytest.mark.requirement("upstream.hung-is-restarted")
async def test_calls_that_are_never_answered_count_as_checks() -> None:
    health = Health(every_ms=3_600_000, timeout_ms=100, failures_max=2)
    async with cared_for(replace(SPEC, health=health)) as cared:
        before = await cared.call("pid")
        # Too short a limit says nothing of the server; an answer voids what was said before.
        for wall_ms in (50, 200):
            await cared.call("wait", wall_ms=wall_ms)
        between = await cared.call("pid")
        for _ in range(2):
            await cared.call("wait", wall_ms=200)
        while cared.upstream.vitals.starts < 2:
            await anyio.sleep(0.02)
        after = await cared.call("pid")

    assert before == between != after


async def test_a_healthy_server_is_left_alone_even_while_it_works_long() -> None:
    health = Health(every_ms=20, timeout_ms=20_000, failures_max=1)
    async with cared_for(replace(SPEC, health=health)) as cared:
        answered_at = cared.upstream.vitals.answered_at
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cared.call, "wait")
            await anyio.sleep(0.2)
            tasks.cancel_scope.cancel()
        while cared.upstream.vitals.answered_at == answered_at:
            await anyio.sleep(0.01)

    assert cared.upstream.vitals.starts == 1


async def test_a_server_that_ends_is_missed_even_while_a_child_holds_its_output() -> None:
    async with cared_for(SPEC) as cared:
        with pytest.raises(UpstreamFailedError, match="died before it answered"):
            await cared.call("leave_holder")
        after = await cared.call("echo", text="back")
        ended, lines = cared.upstream.vitals.last_end, cared.upstream.vitals.stderr.lines()

    child = int(lines[0].removeprefix("left "))
    assert after == "back"
    assert ended is not None
    assert (ended.cause, ended.exit_code, ended.signal) == (EndCause.EXITED, 4, None)
    assert is_alive(child)  # this placement ends no trees
    os.kill(child, signal.SIGKILL)


async def test_the_signal_that_ended_a_server_is_known() -> None:
    async with cared_for(SPEC) as cared:
        os.kill(int(await cared.call("pid")), signal.SIGSEGV)
        while cared.upstream.vitals.starts < 2:
            await anyio.sleep(0.01)
        ended = cared.upstream.vitals.last_end

    assert ended is not None
    assert (ended.cause, ended.signal) == (EndCause.SIGNALLED, signal.SIGSEGV)
    assert ended.why == "it was ended by signal 11"


async def test_a_server_that_ignores_every_request_to_end_is_killed() -> None:
    script = f"trap '' TERM; {' '.join(SERVER)}; while :; do sleep 0.05; done"
    async with cared_for(replace(SPEC, command=("/bin/sh", "-c", script))) as cared:
        await cared.call("pid")
        pid = cared.placement.started[LOCAL]

    assert not is_alive(pid)
    assert cared.placement.ended == [LOCAL]


async def test_the_servers_of_sessions_are_cared_for_alike_and_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "SWEEP_SECONDS_MAX", 0.02)
    spec = replace(SPEC, share=Share.SESSION, sessions_max=2, idle_ms=600_000)
    async with cared_for(spec) as cared:
        pids = {await cared.call("pid", session=name) for name in ("a", "b")}
        with pytest.raises(UpstreamNotReachedError, match="2 sessions have a connection"):
            await cared.call("pid", session="c")
        own = cared.relay.own_connections
        assert cared.relay._own is not None
        cared.relay._own._idle_s = 0.0  # as if it had passed
        while cared.relay.own_connections:
            await anyio.sleep(0.02)
        cared.relay._own._idle_s = 600.0
        while any(is_alive(int(pid)) for pid in pids):
            await anyio.sleep(0.02)
        again = await cared.call("pid", session="c")

    assert len(pids) == len(own) == 2
    assert again not in pids
    assert {"local.1", "local.2"} <= set(cared.placement.ended)
