"""Files, devices and system calls that a rule, or every command, goes without."""

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from ebpf.capability import CapabilityState, Host
from ebpf.command import CommandResult
from ebpf.executor import Command, LocalExecutor
from governor.call import Enforcement
from governor.confines import Confines, Devices
from tests.ebpf.commands import limits, python, shell
from tests.kernel.any_groups import host_with_groups

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]


@pytest.fixture(scope="session")
def host() -> Host:
    return host_with_groups()


async def ended(executor: LocalExecutor, command: Command, confines: Confines) -> CommandResult:
    with anyio.fail_after(60):
        return await executor.run("call", command, limits(confines=confines))


async def worked(executor: LocalExecutor, script: str, confines: Confines) -> bool:
    return (await ended(executor, shell(script), confines)).exit_code == 0


@pytest.fixture
def tree(open_dir: Path, host: Host) -> Iterator[Path]:
    """Yield a directory with a file, a program and a link, all of them anybody's."""
    if host.capability("files").state is not CapabilityState.ENFORCED:
        pytest.skip(f"needs Landlock: {host.capability('files').why}")
    inside = open_dir / "inside"
    inside.mkdir()
    (inside / "file").write_text("words\n")
    program = inside / "program"
    program.write_text("#!/bin/sh\necho started\n")
    (open_dir / "link").symlink_to(inside)
    for path in (inside, inside / "file", program):
        path.chmod(0o777)
    return open_dir


@pytest.mark.requirement("files.withheld")
async def test_what_is_hidden_is_neither_read_nor_changed(
    executor: LocalExecutor, tree: Path
) -> None:
    confines = Confines(hidden=(str(tree / "inside"),))

    assert await worked(executor, f"cat {tree}/inside/file", Confines())
    for script in (
        f"cat {tree}/inside/file",
        f"cat {tree}/link/file",
        f"echo x > {tree}/inside/file",
        f"touch {tree}/inside/new",
        f"rm {tree}/inside/file",
        f"{tree}/inside/program",
        f"mv {tree}/inside {tree}/outside",
    ):
        assert not await worked(executor, script, confines), script
    assert (tree / "inside" / "file").read_text() == "words\n"


@pytest.mark.requirement("files.withheld")
async def test_what_is_read_only_can_be_read_and_started_and_not_changed(
    executor: LocalExecutor, tree: Path
) -> None:
    confines = Confines(read_only=(str(tree / "inside"),))

    for script in (f"cat {tree}/inside/file", f"{tree}/inside/program", f"ls {tree}/inside"):
        assert await worked(executor, script, confines), script
    for script in (
        f"echo x > {tree}/inside/file",
        f"echo x > {tree}/link/file",
        f"truncate -s 0 {tree}/inside/file",
        f"mkdir {tree}/inside/new",
        f"rm {tree}/inside/file",
        f"ln {tree}/inside/file {tree}/other",
    ):
        assert not await worked(executor, script, confines), script
    assert (tree / "inside" / "file").read_text() == "words\n"


@pytest.mark.requirement("files.withheld")
async def test_nothing_is_started_where_nothing_may_be(executor: LocalExecutor, tree: Path) -> None:
    confines = Confines(no_exec_from=(str(tree),))

    assert await worked(executor, f"{tree}/inside/program", Confines())
    assert not await worked(executor, f"{tree}/inside/program", confines)
    assert not await worked(executor, f"cp /bin/true {tree}/mine && {tree}/mine", confines)
    assert await worked(executor, f"cat {tree}/inside/file && echo x > {tree}/new", confines)


@pytest.mark.requirement("files.withheld")
async def test_a_link_in_the_rule_withholds_what_it_leads_to(
    executor: LocalExecutor, tree: Path
) -> None:
    confines = Confines(hidden=(str(tree / "link"),))

    assert not await worked(executor, f"cat {tree}/inside/file", confines)


# Opening some of these has effects on real machines, so the modes ask for nothing to be done.
OPEN = """
import os
for path in {paths}:
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY))
        print(path, "opened")
    except OSError as error:
        print(path, error.strerror)
"""


@pytest.mark.requirement("devices.standard")
async def test_only_the_standard_devices_are_opened(
    executor: LocalExecutor, host: Host, open_dir: Path
) -> None:
    if host.capability("devices").state is not CapabilityState.ENFORCED:
        pytest.skip(host.capability("devices").why)
    loop = open_dir / "disk"
    os.mknod(loop, stat.S_IFBLK | 0o666, os.makedev(7, 0))
    kmsg = open_dir / "kmsg"
    os.mknod(kmsg, stat.S_IFCHR | 0o666, os.makedev(1, 11))
    for path in (loop, kmsg):
        path.chmod(0o666)
    standard = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/ptmx"]
    source = OPEN.format(paths=[*standard, str(loop), str(kmsg)])

    result = await ended(executor, python(source), Confines(devices=Devices.STANDARD))

    assert result.stdout.decode().splitlines() == [
        *(f"{path} opened" for path in standard),
        f"{loop} Operation not permitted",
        f"{kmsg} Operation not permitted",
    ]
    assert sorted(line.rpartition("device ")[2] for line in result.refused[1:]) == [
        "b 7:0",
        "c 1:11",
    ]


ESCAPES = """
import ctypes, json, os
libc = ctypes.CDLL(None, use_errno=True)
said = {{}}
for name, number, *arguments in {calls}:
    result = libc.syscall(number, *map(ctypes.c_long, arguments))
    said[name] = "worked" if result >= 0 else os.strerror(ctypes.get_errno())
print(json.dumps(said))
"""
CALLS = [
    ("unshare a user namespace", 272, 0x10000000),
    ("unshare files", 272, 0x400),
    ("clone a user namespace", 56, 0x10000000 | 17, 0, 0, 0, 0),
    ("clone3", 435, 0, 0),
    ("setns", 308, 0, 0),
    ("mount", 165, 0, 0, 0, 0, 0),
    ("bpf", 321, 0, 0, 0),
    ("perf_event_open", 298, 0, 0, -1, -1, 0),
    ("io_uring_setup", 425, 1, 0),
    ("keyctl", 250, 0, -3, 1),
    ("userfaultfd", 323, 1),
]


@pytest.mark.requirement("system-calls.refused")
async def test_no_command_makes_what_leads_out_of_its_domain(
    executor: LocalExecutor, host: Host
) -> None:
    if host.capability("system_calls").state is not CapabilityState.ENFORCED:
        pytest.skip(host.capability("system_calls").why)
    result = await ended(executor, python(ESCAPES.format(calls=CALLS)), Confines())

    said = json.loads(result.stdout)
    assert said.pop("unshare files") == "worked"
    assert said.pop("clone3") == said.pop("io_uring_setup") == "Function not implemented"
    assert set(said.values()) == {"Operation not permitted"}, said


async def test_threads_and_processes_start_as_ever(executor: LocalExecutor) -> None:
    source = (
        "import subprocess, threading\n"
        "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
        "print(subprocess.run(['/bin/echo', 'process'], capture_output=True).stdout)"
    )

    result = await ended(executor, python(source), Confines())

    assert result.stdout.decode().split() == ["thread", "b'process\\n'"]


@pytest.mark.requirement("confines.fail-closed")
async def test_a_host_that_cannot_hold_a_rule_says_so(
    host: Host, state_dir: Path, open_dir: Path
) -> None:
    wanted = {
        "network": Confines(network=()),
        "files": Confines(hidden=("/srv/secret",)),
        "devices": Confines(devices=Devices.STANDARD),
    }
    names = {"network", "no_network", "files", "devices", "probes"}
    blind = replace(
        host,
        landlock_abi=0,
        capabilities=tuple(one for one in host.capabilities if one.name not in names),
    )
    executor = LocalExecutor(host=blind, state_dir=state_dir, user="nobody")

    asked = {name: limits(confines=confines) for name, confines in wanted.items()}
    asked["probes"] = replace(limits(), probe_limits=(("opens", 1),))
    for name, these in asked.items():
        isolated = executor.isolation_for(these, str(open_dir))
        assert isolated.enforcement is Enforcement.NONE, name
        assert name in isolated.why


@pytest.mark.requirement("network.none-is-none")
async def test_without_programs_a_command_that_may_reach_nothing_makes_no_socket(
    host: Host, state_dir: Path
) -> None:
    rest = tuple(one for one in host.capabilities if one.name != "network")
    executor = LocalExecutor(
        host=replace(host, capabilities=rest), state_dir=state_dir, user="nobody"
    )
    source = (
        "import socket\n"
        "socket.socketpair()\n"
        "for family in (socket.AF_INET, socket.AF_INET6):\n"
        "    try: socket.socket(family); print('made')\n"
        "    except OSError as error: print(error.strerror)\n"
    )

    result = await ended(executor, python(source), Confines(network=()))

    assert result.stdout.decode().splitlines() == ["Address family not supported by protocol"] * 2
