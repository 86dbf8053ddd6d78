"""Where a command may connect, send and listen: held by programs on its control group."""

import gc
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from ipaddress import ip_address
from pathlib import Path

import anyio
import psutil
import pytest
from ports import a_port

from ebpf.capability import CapabilityState, Host
from ebpf.command import CommandResult
from ebpf.confining.confiner import Confiner
from ebpf.confining.names import NameBook
from ebpf.confining.places import Address
from ebpf.executor import LocalExecutor
from governor.confines import Confines, destination_of
from tests.ebpf.commands import PYTHON, ROOT, Pipe, limits, python
from tests.kernel.any_groups import host_with_groups

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]


@pytest.fixture(scope="session")
def host() -> Host:
    return host_with_groups()


CONNECT = """
import socket
for host, port in {places}:
    try:
        socket.create_connection((host, port), 60).close()
        print("reached", port)
    except OSError as error:
        print(error.strerror, port)
"""


@pytest.fixture
def confining(host: Host) -> None:
    found = host.capability("network")
    if found.state is not CapabilityState.ENFORCED:
        pytest.skip(f"this host confines no network: {found.why}")


@pytest.fixture
def listener() -> Iterator[Callable[..., int]]:
    """Yield what makes a listener on the loopback and returns its port."""
    opened: list[socket.socket] = []

    def listen(family: int = socket.AF_INET) -> int:
        made = socket.socket(family)
        opened.append(made)
        made.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
        made.listen()
        return int(made.getsockname()[1])

    yield listen
    for made in opened:
        made.close()


def to(*texts: str) -> Confines:
    return Confines(network=tuple(map(destination_of, texts)))


async def ended(executor: LocalExecutor, source: str, confines: Confines) -> CommandResult:
    with anyio.fail_after(60):
        return await executor.run("call", python(source), limits(confines=confines))


@pytest.mark.usefixtures("confining")
@pytest.mark.requirement("network.only-what-is-listed")
async def test_a_command_reaches_what_its_rule_lists_and_nothing_else(
    executor: LocalExecutor, listener: Callable[..., int]
) -> None:
    good, other, sixth = listener(), listener(), listener(socket.AF_INET6)
    places = [("127.0.0.1", good), ("127.0.0.1", other), ("::1", sixth)]

    result = await ended(
        executor, CONNECT.format(places=places), to(f"127.0.0.0/8:{good}", f"[::1]:{sixth}")
    )

    assert result.stdout.decode().splitlines() == [
        f"reached {good}",
        f"Operation not permitted {other}",
        f"reached {sixth}",
    ]
    assert f"tried to connect to 127.0.0.1:{other}" in result.refused[1]
    assert "python" in result.refused[1]


@pytest.mark.usefixtures("confining")
@pytest.mark.requirement("network.none-is-none")
async def test_without_any_network_not_even_this_machine_is_reached(
    executor: LocalExecutor, listener: Callable[..., int]
) -> None:
    port = listener()
    source = CONNECT.format(places=[("127.0.0.1", port), ("0.0.0.0", port), ("::", port)])

    result = await ended(executor, source, to())

    assert b"reached" not in result.stdout
    assert result.refused[0] == "3 attempts were refused by the rule"


@pytest.mark.usefixtures("confining")
async def test_a_command_whose_rule_says_nothing_of_the_network_is_free(
    executor: LocalExecutor, listener: Callable[..., int]
) -> None:
    port = listener()

    result = await ended(executor, CONNECT.format(places=[("127.0.0.1", port)]), Confines())

    assert (result.stdout.decode(), result.refused) == (f"reached {port}\n", ())


SEND = """
import socket
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for port in {ports}:
    try:
        print(sock.sendto(b"x", ("127.0.0.1", port)), port)
    except OSError as error:
        print(error.strerror, port)
"""


@pytest.mark.usefixtures("confining")
async def test_datagrams_go_only_where_the_rule_says(executor: LocalExecutor) -> None:
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as receiver:
        receiver.bind(("127.0.0.1", 0))
        port = receiver.getsockname()[1]
        source = SEND.format(ports=[port, port + 1])

        result = await ended(executor, source, to(f"127.0.0.1:{port}"))

    assert result.stdout.decode().splitlines() == [
        f"1 {port}",
        f"Operation not permitted {port + 1}",
    ]
    assert f"tried to send to 127.0.0.1:{port + 1}" in result.refused[1]


# One is open to the other side of the command itself, one only to the outside.
LISTEN = """
import socket
for host, port in {places}:
    try:
        listening = socket.create_server((host, port))
        peer = socket.create_connection(listening.getsockname()[:2], 60)
        accepted, _ = listening.accept()
        peer.sendall(b"ping")
        accepted.sendall(accepted.recv(4))
        print(peer.recv(4).decode(), host)
    except OSError as error:
        print("timed out" if error.errno is None else "refused", host)
"""


@pytest.mark.usefixtures("confining")
@pytest.mark.requirement("network.only-what-is-listed")
async def test_a_command_serves_on_the_loopback_alone_and_where_the_rule_lists_it(
    executor: LocalExecutor,
) -> None:
    port = a_port()
    source = LISTEN.format(places=[("127.0.0.1", port), ("0.0.0.0", port), ("127.0.0.1", port + 1)])

    result = await ended(executor, source, to(f"127.0.0.1:{port}", f"0.0.0.0/8:{port}"))

    assert result.stdout.decode().splitlines() == [
        "ping 127.0.0.1",
        "refused 0.0.0.0",
        "refused 127.0.0.1",
    ]


OTHER_SOCKETS = """
import socket
tried = [(2, 3, 1), (2, 2, 1), (10, 2, 58), (17, 3, 0), (40, 1, 0), (38, 5, 0)]
for family, kind, protocol in tried:
    try:
        socket.socket(family, kind, protocol)
        print("made")
    except OSError as error:
        print("refused")
socket.socketpair()
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)
"""


@pytest.mark.usefixtures("confining")
@pytest.mark.requirement("network.only-what-is-listed")
async def test_no_other_kind_of_socket_leads_around_the_rule(executor: LocalExecutor) -> None:
    result = await ended(executor, OTHER_SOCKETS, to("0.0.0.0/0:*", "[::]:*"))

    assert result.stdout.decode().split() == ["refused"] * 6
    assert (result.exit_code, result.stderr) == (0, b"")


@pytest.mark.usefixtures("confining")
@pytest.mark.requirement("network.names-are-followed")
async def test_a_name_in_the_rule_is_where_it_leads_now(
    host: Host, state_dir: Path, listener: Callable[..., int], tmp_path: Path
) -> None:
    asked: list[str] = []
    leads = {"localhost": "127.0.0.1", "inside.example": "127.0.0.1", "gone.example": None}

    async def resolve(name: str) -> frozenset[Address]:
        asked.append(name)
        found = leads[name]
        return frozenset() if found is None else frozenset({ip_address(found)})

    port, other = listener(), listener()
    resolv_conf = tmp_path / "resolv.conf"
    resolv_conf.write_text("nameserver 127.0.0.9\n")
    executor = LocalExecutor(host=host, state_dir=state_dir, user="nobody")
    executor._confiner = Confiner(NameBook(resolve, resolv_conf=resolv_conf))
    confines = to(f"localhost:{port}", f"inside.example:{other}", f"gone.example:{other}")
    source = CONNECT.format(places=[("127.0.0.1", port), ("127.0.0.1", other)])
    lookups = SEND.format(ports=[53]).replace("127.0.0.1", "127.0.0.9")

    first = await ended(executor, source, confines)
    second = await ended(executor, lookups, confines)

    # A public name that leads inside opens nothing; the resolver is open because there are names.
    assert first.stdout.decode().splitlines() == [
        f"reached {port}",
        f"Operation not permitted {other}",
    ]
    assert second.stdout == b"1 53\n"
    assert sorted(asked) == ["gone.example", "inside.example", "localhost"]  # once for both


@pytest.mark.usefixtures("confining")
async def test_a_command_that_is_given_up_before_its_names_are_known_leaves_nothing_in_the_kernel(
    host: Host, state_dir: Path
) -> None:
    is_asked = anyio.Event()

    async def resolve(_name: str) -> frozenset[Address]:
        is_asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    executor = LocalExecutor(host=host, state_dir=state_dir, user="nobody")
    confiner = executor._confiner = Confiner(NameBook(resolve))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ended, executor, "", to("slow.example:443"))
            await is_asked.wait()
            tasks.cancel_scope.cancel()

    assert confiner._programs is not None
    assert list(confiner._programs._denials.keys(most=2)) == []


def test_finding_out_what_this_host_can_do_keeps_nothing_open() -> None:
    host_with_groups()
    gc.collect()  # else what earlier tests left to be collected counts among them
    before = psutil.Process().num_fds()

    host_with_groups()

    # Fewer where something of another test's went meanwhile.
    assert psutil.Process().num_fds() <= before


OWNER = """
import sys
from pathlib import Path
import anyio
from ebpf.capability import probe_host
from ebpf.executor import LocalExecutor
from governor.confines import Confines
from tests.ebpf.commands import limits, shell
executor = LocalExecutor(host=probe_host(), state_dir=Path(sys.argv[1]), user="nobody")
anyio.run(executor.run, "left", shell(sys.argv[2]), limits(confines=Confines(network=())))
"""

# Goes on when its sidecar is gone, which the parent-death signal of the kernel would prevent.
ORPHAN = (
    "(setsid sh -c 'read go < {pipe}; exec {python} -S -c \"$CODE\" > {pipe} 2>&1' &); sleep 1000"
)


@pytest.mark.usefixtures("confining")
@pytest.mark.requirement("network.outlives-the-sidecar")
async def test_the_rule_holds_when_the_sidecar_was_killed(
    executor: LocalExecutor, state_dir: Path, pipe: Pipe, listener: Callable[..., int]
) -> None:
    source = CONNECT.format(places=json.dumps([["127.0.0.1", listener()]]))
    script = f"export CODE='{source}'; " + ORPHAN.format(pipe=pipe.path, python=PYTHON)
    with anyio.fail_after(60):
        owner = await anyio.open_process(
            [sys.executable, "-c", OWNER, str(state_dir), script],
            env={"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
            cwd=ROOT,
        )
        opened = await anyio.to_thread.run_sync(lambda: pipe.path.open("w"))  # it waits there
        owner.send_signal(signal.SIGKILL)
        await owner.wait()
        await anyio.to_thread.run_sync(lambda: (opened.write("go\n"), opened.close()))

        said = await pipe.receive()
        await executor.sweep()

    assert "Operation not permitted" in said
    await owner.aclose()
