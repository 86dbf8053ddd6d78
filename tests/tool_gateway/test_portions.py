from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import Unit
from governor.usage import Usage
from tool_gateway.server_ports import ServerUse
from tool_gateway.upstreams import portions
from tool_gateway.upstreams.portions import LOST, Portions

MIB = 1024 * 1024


@dataclass
class Server:
    """A server whose meters a test turns, and the clock beside it."""

    cpu_ms: int = 1_000
    memory_bytes: int = 0
    life: int = 1
    is_there: bool = True
    now: float = 0.0
    read: int = field(default=0)

    def use(self) -> ServerUse | None:
        self.read += 1
        if not self.is_there:
            return None
        return ServerUse(
            life=self.life, totals={Unit.CPU_MS: self.cpu_ms}, memory_bytes=self.memory_bytes
        )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    made = Server()
    monkeypatch.setattr(portions.anyio, "current_time", lambda: made.now)
    return made


def cpu_of(usage: Usage) -> int:
    return usage.measured.of(Unit.CPU_MS)


@pytest.mark.requirement("servers.calls-are-attributed")
def test_a_call_that_was_alone_has_what_the_server_used_meanwhile(server: Server) -> None:
    found = Portions(server.use)
    server.cpu_ms += 500  # of the server's own, before the call

    with found.entered() as portion:
        server.cpu_ms += 70
        server.memory_bytes, server.now = 100 * MIB, 2.0
    server.cpu_ms += 500

    usage = portion.usage()
    assert usage.measured.as_dict() == {"cpu_ms": 70, "memory_mib_s": 100}
    assert usage.divided == ()
    assert portion.others == 0


@pytest.mark.requirement("servers.calls-are-attributed")
def test_calls_at_the_same_time_have_the_same_part_of_it_and_say_that_it_is_one(
    server: Server,
) -> None:
    found = Portions(server.use)

    with found.entered() as long:
        server.cpu_ms += 100
        with found.entered() as short:
            server.cpu_ms += 60
        server.cpu_ms += 10

    assert cpu_of(long.usage()) == 100 + 30 + 10
    assert cpu_of(short.usage()) == 30
    assert (long.others, short.others) == (1, 1)
    assert short.usage().divided == (Unit.CPU_MS, Unit.MEMORY_MIB_S)
    assert Unit.CPU_MS in short.usage().estimated


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["enter", "leave"]), st.integers(0, 1_000)), max_size=40
    )
)
def test_what_is_divided_is_what_the_server_used_while_somebody_was_there(
    steps: list[tuple[str, int]],
) -> None:
    server, used = Server(), 0
    found = Portions(server.use)
    inside: list[ExitStack] = []
    taken = []

    async def play() -> None:
        nonlocal used
        for step, cpu_ms in steps:
            server.cpu_ms += cpu_ms
            used += cpu_ms if inside else 0
            if step == "enter":
                stack = ExitStack()
                taken.append(stack.enter_context(found.entered()))
                inside.append(stack)
            elif inside:
                inside.pop(0).close()
        while inside:
            inside.pop().close()

    anyio.run(play)

    divided = sum(cpu_of(portion.usage()) for portion in taken)
    assert used <= divided <= used + len(taken)


@pytest.mark.requirement("servers.calls-are-attributed")
@pytest.mark.parametrize("change", [{"life": 2}, {"is_there": False}])
def test_what_a_server_that_died_had_used_is_not_known(
    server: Server, change: dict[str, int]
) -> None:
    found = Portions(server.use)

    with found.entered() as portion:
        server.cpu_ms += 70
        for name, value in change.items():
            setattr(server, name, value)

    usage = portion.usage()
    assert usage.measured.as_dict() == {}
    assert usage.unmeasured == {Unit.CPU_MS: LOST, Unit.MEMORY_MIB_S: LOST}


@pytest.mark.anyio
async def test_memory_that_comes_and_goes_during_a_call_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(portions, "SAMPLE_SECONDS", 0.001)
    server = Server()
    found = Portions(server.use)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(found.sample)
            with found.entered() as portion:
                server.memory_bytes = 1 << 40
                seen = server.read
                while server.read < seen + 3:
                    await anyio.sleep(0.001)
                server.memory_bytes = 0
            read = server.read
            await anyio.sleep(0.02)
            tasks.cancel_scope.cancel()

    assert portion.usage().measured.of(Unit.MEMORY_MIB_S) > 0
    assert server.read <= read + 1  # nobody looks while nothing is in flight
