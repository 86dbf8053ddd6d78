"""What a command sends, connects to and starts, counted by programs in the kernel."""

import mmap
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
import psutil
import pytest

from ebpf.capability import CapabilityState, Host
from ebpf.domains.hierarchies import UNIFIED
from ebpf.domains.place import Place
from ebpf.errors import CapabilityMissingError
from ebpf.executor import Command, CommandResult, EndCause, LocalExecutor, Measured
from ebpf.metering import Metering
from ebpf.probe.layout import RECORD_BYTES, Counted
from ebpf.probe.watched import Watched
from governor.amounts import Unit
from governor.call import Enforcement
from governor.limits import ExecutionLimits
from tests.ebpf.commands import MIB, Pipe, limits, python, shell
from tests.kernel.metered import Sink, datagrams, sends, sink

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]

# A datagram of a hundred bytes, with the headers of UDP and IP.
DATAGRAM = 128
PAGE = mmap.PAGESIZE


class Keeping(Metering):
    """Keeps what was known of each domain when it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ended: list[tuple[Counted, Watched]] = []

    def forget(self, group_id: int, *, unsent: int | None) -> None:
        self.ended.append((self.counted(group_id), self.watched(group_id)))
        super().forget(group_id, unsent=unsent)


@pytest.fixture(autouse=True)
def _metered(host: Host) -> None:
    egress = host.capability("egress_bytes")
    if egress.state is not CapabilityState.ENFORCED:
        pytest.skip(f"needs programs in the kernel: {egress.why}")


@pytest.fixture
def metering() -> Iterator[Metering]:
    loaded = Metering()
    yield loaded
    loaded.close()


@pytest.fixture
def executor(host: Host, state_dir: Path, metering: Metering) -> LocalExecutor:
    return LocalExecutor(host=host, state_dir=state_dir, user="nobody", attachers=(metering,))


@pytest.fixture
def server() -> Iterator[Sink]:
    with sink() as running:
        yield running


def egress(limit: int, **others: int) -> ExecutionLimits:
    return replace(limits(**others), egress_bytes=limit)


@pytest.mark.requirement("egress.stops-at-the-byte")
async def test_not_one_byte_more_than_the_limit_leaves_a_command(executor: LocalExecutor) -> None:
    with anyio.fail_after(60):
        result = await executor.run("call", datagrams(1_000, 100), egress(7 * DATAGRAM + 100))

    assert result.cause is EndCause.EGRESS
    assert result.attached[Unit.EGRESS_BYTES] == 7 * DATAGRAM
    assert "the first to 127.0.0.1:9" in result.notes[0]


@pytest.mark.requirement("egress.stops-at-the-byte")
async def test_a_command_may_send_exactly_its_limit(executor: LocalExecutor) -> None:
    with anyio.fail_after(60):
        result = await executor.run("call", datagrams(5, 100), egress(5 * DATAGRAM))

    assert result.cause is EndCause.EXITED
    assert result.stdout == b"5\n"
    assert result.attached == {Unit.EGRESS_BYTES: 5 * DATAGRAM}
    assert Unit.EGRESS_BYTES not in result.unmeasured


@pytest.mark.requirement("egress.stops-at-the-byte")
async def test_a_stream_is_stopped_at_its_limit_and_its_command_killed(
    executor: LocalExecutor, server: Sink
) -> None:
    with anyio.fail_after(60):
        result = await executor.run("call", sends(server.port, 8 * MIB), egress(MIB))

    assert result.cause is EndCause.EGRESS
    assert result.signal == 9
    assert server.received <= result.attached[Unit.EGRESS_BYTES] <= MIB


@pytest.mark.requirement("egress.is-counted")
async def test_what_a_stream_carries_is_counted_with_its_headers(
    executor: LocalExecutor, server: Sink
) -> None:
    with anyio.fail_after(60):
        result = await executor.run("call", sends(server.port, MIB), limits())

    assert result.cause is EndCause.EXITED
    assert server.received == MIB
    assert MIB < result.attached[Unit.EGRESS_BYTES] < MIB + MIB // 10


@pytest.mark.requirement("egress.stops-at-the-byte")
async def test_what_a_killed_command_left_in_its_socket_is_not_sent_after_it(
    executor: LocalExecutor, server: Sink
) -> None:
    # The kernel takes megabytes at once and would send them on its own.
    with anyio.fail_after(60):
        result = await executor.run("call", sends(server.port, 8 * MIB), egress(MIB))
        again = await executor.run("next", sends(server.port, 5), egress(MIB))
        await anyio.to_thread.run_sync(server.wait_for_quiet)

    assert again.cause is EndCause.EXITED
    assert server.received <= result.attached[Unit.EGRESS_BYTES] + 5


@pytest.mark.requirement("egress.is-counted")
async def test_what_a_command_left_in_its_socket_when_it_ended_is_sent_and_charged(
    executor: LocalExecutor, server: Sink
) -> None:
    command = python(
        "import socket\n"
        f"s = socket.create_connection(('127.0.0.1', {server.port}))\n"
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)\n"
        f"s.sendall(b'x' * {MIB})\n"
    )

    with anyio.fail_after(60):
        result = await executor.run("call", command, limits())
        await anyio.to_thread.run_sync(server.wait_for_quiet)

    assert result.cause is EndCause.EXITED
    assert server.received == MIB
    assert result.attached[Unit.EGRESS_BYTES] > MIB


async def test_each_of_many_commands_at_once_is_charged_its_own(executor: LocalExecutor) -> None:
    results: dict[int, CommandResult] = {}

    async def run(count: int) -> None:
        results[count] = await executor.run(f"call-{count}", datagrams(count, 100), limits())

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for count in range(1, 9):
                tasks.start_soon(run, count)

    sent = {count: result.attached[Unit.EGRESS_BYTES] for count, result in results.items()}
    assert sent == {count: count * DATAGRAM for count in range(1, 9)}


async def test_what_a_detached_grandchild_sends_is_its_calls(executor: LocalExecutor) -> None:
    inner = "import socket; socket.socket(socket.AF_INET, 2).sendto(bytes(100), ('127.0.0.1', 9))"
    script = f'/usr/bin/setsid /bin/sh -c "/usr/bin/env python3 -S -c \\"{inner}\\""; wait'

    with anyio.fail_after(60):
        result = await executor.run("call", shell(script), limits())

    assert result.stderr == b""
    assert result.attached[Unit.EGRESS_BYTES] == DATAGRAM


async def test_a_limit_of_a_session_stops_its_calls_and_names_whose_it_was(
    host: Host, metering: Metering, state_dir: Path
) -> None:
    domains = LocalExecutor(host=host, state_dir=state_dir, user="nobody")._domains
    domain = domains.make(Place(tenant="t", session="s", call="c"), None)
    call = domain.unified
    assert call is not None
    try:
        of_session = metering.attach("session", call.parent, egress(3 * DATAGRAM))
        of_call = metering.attach("call", call, egress(1_000_000))
        with anyio.fail_after(60):
            await _enter_and_run(call, datagrams(10, 100).argv)

        assert of_session.measured() == of_call.measured() == {Unit.EGRESS_BYTES: 3 * DATAGRAM}
        assert of_call.ended_by() is EndCause.EGRESS
        assert of_call.counted.over.name == "ABOVE"
        assert of_session.counted.over.name == "OWN"
        of_call.close()
        of_session.close()
    finally:
        await domain.remove()


async def test_a_limit_that_nothing_here_holds_keeps_its_command_from_running(
    host: Host, state_dir: Path
) -> None:
    bare = LocalExecutor(host=host, state_dir=state_dir, user="nobody")

    with anyio.fail_after(60), pytest.raises(CapabilityMissingError):
        await bare.run("call", shell("true"), egress(1))


async def test_egress_is_enforced_where_the_programs_load(executor: LocalExecutor) -> None:
    assert executor.isolation_for(egress(1), None).enforcement is Enforcement.ENFORCED
    assert Unit.EGRESS_BYTES not in executor.unmeasurable


async def test_the_figure_of_a_cancelled_command_is_told(
    executor: LocalExecutor, pipe: Pipe
) -> None:
    told: list[Measured] = []
    # Its input comes once its launch is complete: only then there is a figure to be told.
    command = python(
        "import socket, sys, time\n"
        "sys.stdin.read()\n"
        "socket.socket(socket.AF_INET, 2).sendto(bytes(100), ('127.0.0.1', 9))\n"
        f"open('{pipe.path}', 'w').write('sent')\n"
        "time.sleep(100)\n"
    )

    async def run() -> None:
        await executor.run("call", command, limits(), told=told.append)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await pipe.receive()
            tasks.cancel_scope.cancel()

    assert told[0].attached == {Unit.EGRESS_BYTES: DATAGRAM}


async def test_connections_programs_files_and_processes_are_told_of_their_domain(
    host: Host, state_dir: Path, server: Sink, open_dir: Path
) -> None:
    metering = Keeping()
    executor = LocalExecutor(host=host, state_dir=state_dir, user="nobody", attachers=(metering,))
    script = (
        "import os, socket\n"
        f"socket.create_connection(('127.0.0.1', {server.port})).close()\n"
        f"open('{open_dir}/made', 'w').close()\n"
        "os.system('/bin/true')\n"
    )

    with anyio.fail_after(60):
        result = await executor.run("call", python(script), limits())
    metering.close()

    counted, watched = metering.ended[0]
    assert counted.connections == 1
    assert list(watched.peers) == [f"127.0.0.1:{server.port} (python3)"]
    assert f"connected to 127.0.0.1:{server.port} (python3)" in result.notes
    if "processes" not in metering.missing:
        assert counted.forks >= 1
        assert counted.exits >= 2
        assert "/bin/true" in watched.programs
        assert any(parent in watched.processes for parent in watched.processes.values())
    if "opens" not in metering.missing:
        # What is opened to enter the domain is none of the command's.
        assert watched.opened == {f"{open_dir}/made": 1}
        assert counted.opens == 1


async def test_whom_the_kernel_killed_for_memory_is_named(
    executor: LocalExecutor, metering: Metering
) -> None:
    if "victims" in metering.missing:
        pytest.skip(f"victims are not told of here: {metering.missing['victims']}")
    hog = python(f"held = b'x' * {200 * MIB}")

    with anyio.fail_after(60):
        result = await executor.run("hog", hog, limits(memory_bytes=64 * MIB))

    assert result.cause is EndCause.MEMORY
    assert any("killed python3 (" in note for note in result.notes)


async def test_what_a_domain_causes_beyond_its_share_of_the_ring_is_counted(
    host: Host, state_dir: Path
) -> None:
    metering = Metering(tracers=(), records_max=4)
    executor = LocalExecutor(host=host, state_dir=state_dir, user="nobody", attachers=(metering,))

    with anyio.fail_after(60):
        result = await executor.run("call", _connects(20), limits())
    metering.close()

    assert "16 events more than are told of one call" in result.notes
    assert "connected to 127.0.0.1:9 (python3) x4, 16 more" in result.notes


@pytest.mark.requirement("metering.lost-is-counted")
async def test_events_that_a_full_ring_has_no_room_for_are_counted(
    host: Host, state_dir: Path
) -> None:
    # The smallest ring there is; nobody reads it while the command runs.
    metering = Metering(tracers=(), records_max=1_000, ring_bytes=PAGE, poll_seconds=60)
    executor = LocalExecutor(host=host, state_dir=state_dir, user="nobody", attachers=(metering,))
    held = PAGE // (RECORD_BYTES + 8)

    with anyio.fail_after(60):
        result = await executor.run("call", _connects(200), limits())
    metering.close()

    (lost,) = [note for note in result.notes if "were lost" in note]
    assert int(lost.split()[0]) == 200 - held
    assert f"connected to 127.0.0.1:9 (python3) x{held}, {200 - held} more" in result.notes


async def test_groups_that_come_and_go_keep_no_descriptors_while_a_domain_is_shut(
    host: Host, metering: Metering
) -> None:
    place = host.hierarchies[UNIFIED].own / f"flyball-test-{os.getpid()}"
    open_files = []
    for unsent in (1, 0, 0, 0, 0):
        group = place / "tenant" / "session" / "call"
        group.mkdir(parents=True)
        metering.attach("call", group, limits())
        metering.forget(group.stat().st_ino, unsent=unsent)
        for path in (group, *group.parents[:3]):
            path.rmdir()
        open_files.append(psutil.Process().num_fds())

    # The first leaves something behind, for which one program is kept: the one that stops it.
    assert open_files[1:] == [open_files[0] + 1] * 4


async def test_a_domain_is_counted_though_groups_around_it_have_such_names_too(
    host: Host, metering: Metering
) -> None:
    slice_ = host.hierarchies[UNIFIED].own / f"flyball-{os.getpid()}.slice"
    own = slice_ / "flyball.service" / f"flyball-test-{os.getpid()}"
    group = own / "tenant" / "session" / "call"
    group.mkdir(parents=True)
    try:
        metered = metering.attach("call", group, limits())
        with anyio.fail_after(60):
            await _enter_and_run(group, datagrams(1, 100).argv)
        sent = metered.counted.egress_bytes
        metered.close()
    finally:
        for path in (group, *group.parents[:5]):
            path.rmdir()

    assert sent == DATAGRAM


def _connects(count: int) -> Command:
    """Return a command that tries to connect so often, to where nobody listens."""
    return python(
        "import socket\n"
        f"for _ in range({count}):\n"
        "    s = socket.socket()\n"
        "    s.connect_ex(('127.0.0.1', 9))\n"
        "    s.close()\n"
    )


async def _enter_and_run(group: Path, argv: tuple[str, ...]) -> None:
    script = f'echo 0 > {group}/cgroup.procs; exec "$@"'
    await anyio.run_process(["/bin/sh", "-c", script, "sh", *argv])
