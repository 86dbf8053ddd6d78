"""Operators' own probes: compiled with the system's bcc, counted per command, held to a limit."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from ebpf.capability import CapabilityState, Host
from ebpf.command import CommandResult, EndCause
from ebpf.custom.probes import COUNT_MAX, CustomProbes
from ebpf.custom.running import start_probe
from ebpf.custom.shelf import Probe, Shelf
from ebpf.errors import CapabilityMissingError, ProbeError
from ebpf.executor import Command, LocalExecutor
from governor.amounts import Unit
from governor.usage import OF_PROBES
from runtime.cli.command_line import run as run_command
from tests.ebpf.commands import limits, python, shell
from tests.kernel.any_groups import host_with_groups

pytestmark = [pytest.mark.kernel, pytest.mark.anyio, pytest.mark.timeout(240)]


@pytest.fixture(scope="session")
def host() -> Host:
    return host_with_groups()


OPENS = "TRACEPOINT_PROBE(syscalls, sys_enter_openat) { flyball_count(1); return 0; }\n"
SENT = "int egress(struct __sk_buff *skb) { flyball_count_packet(skb, 1); return 1; }\n"
INSIDE = """
#include <linux/sched.h>
TRACEPOINT_PROBE(syscalls, sys_enter_openat) {
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    flyball_count(task->tgid);
    return 0;
}
"""


@pytest.fixture(scope="session")
def bcc(host: Host) -> None:
    if host.capability("network").state is not CapabilityState.ENFORCED:
        pytest.skip(host.capability("network").why)

    async def tried() -> None:
        await (await start_probe(Probe(name="opens", source=OPENS))).stop()

    try:
        anyio.run(tried)
    except ProbeError as error:
        if "apt install" in str(error) or "linux-libc-dev" in str(error):
            pytest.skip(str(error))
        raise


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path / "probes")


@asynccontextmanager
async def executor_with(
    host: Host, state_dir: Path, shelf: Shelf, *names: str
) -> AsyncIterator[LocalExecutor]:
    """Yield an executor once the named probes count."""
    probes = CustomProbes(shelf)
    async with probes.followed():
        with anyio.fail_after(180):
            while set(probes.running) != set(names):
                await anyio.sleep(0.05)
        yield LocalExecutor(host=host, state_dir=state_dir, user="nobody", attachers=(probes,))


async def ended(
    executor: LocalExecutor, command: Command, *limited: tuple[str, int]
) -> CommandResult:
    with anyio.fail_after(60):
        return await executor.run("call", command, replace(limits(), probe_limits=limited))


@pytest.mark.usefixtures("bcc")
@pytest.mark.requirement("probes.count-per-command")
async def test_a_probe_counts_what_each_command_does_and_nothing_of_others(
    host: Host, state_dir: Path, shelf: Shelf
) -> None:
    shelf.add(Probe(name="opens", source=OPENS))
    few, many = (python(f"for _ in range({times}): open('/dev/null')") for times in (1, 501))

    async with executor_with(host, state_dir, shelf, "opens") as executor:
        counted = [
            int((await ended(executor, command)).notes[-1].rsplit(" ", 1)[1])
            for command in (few, many, few)
        ]

    assert counted[1] - counted[0] == 500
    assert counted[2] == counted[0]


@pytest.mark.usefixtures("bcc")
@pytest.mark.requirement("probes.stop-a-command")
async def test_a_command_that_a_probe_counts_too_far_for_its_rule_is_ended(
    host: Host, state_dir: Path, shelf: Shelf
) -> None:
    shelf.add(Probe(name="opens", source=OPENS))
    endless = shell("while :; do : < /dev/null; done")

    async with executor_with(host, state_dir, shelf, "opens") as executor:
        result = await ended(executor, endless, ("opens", 2000))
        allowed = await ended(executor, shell("true"), ("opens", 2000))

    assert result.cause is EndCause.PROBE
    assert result.notes[-1].startswith("the probe opens counted ")
    assert result.notes[-1].endswith("(at most 2000)")
    assert allowed.cause is EndCause.EXITED


@pytest.mark.usefixtures("bcc")
@pytest.mark.requirement("probes.are-units")
async def test_what_a_probe_with_a_unit_counts_is_measured_as_that_and_no_other_is(
    host: Host, state_dir: Path, shelf: Shelf
) -> None:
    shelf.add(Probe(name="opens", source=OPENS, unit=Unit.PROBE_3))
    shelf.add(Probe(name="sent", source=SENT))

    async with executor_with(host, state_dir, shelf, "opens", "sent") as executor:
        blind = set(executor.unmeasurable) & set(OF_PROBES)
        result = await ended(executor, shell("exit 0"))

    assert blind == set(OF_PROBES) - {Unit.PROBE_3}
    noted = int(result.notes[0].removeprefix("the probe opens counted "))
    assert result.attached.get(Unit.PROBE_3) == noted > 0
    assert not set(OF_PROBES) & (set(result.attached) | set(result.unmeasured)) - {Unit.PROBE_3}


@pytest.mark.usefixtures("bcc")
@pytest.mark.requirement("probes.are-units")
async def test_a_rule_can_limit_a_probe_by_the_name_of_its_unit(
    host: Host, state_dir: Path, shelf: Shelf
) -> None:
    shelf.add(Probe(name="opens", source=OPENS, unit=Unit.PROBE_1))
    endless = shell("while :; do : < /dev/null; done")

    async with executor_with(host, state_dir, shelf, "opens") as executor:
        result = await ended(executor, endless, ("opens", 10**9), ("probe_1", 2000))
        with pytest.raises(CapabilityMissingError, match="the probe probe_2, which the rule"):
            await ended(executor, shell("true"), ("probe_2", 2000))

    assert result.cause is EndCause.PROBE
    assert result.notes[-1].endswith("(at most 2000)")
    assert result.attached[Unit.PROBE_1] > 2000


@pytest.mark.usefixtures("bcc")
@pytest.mark.requirement("probes.are-units")
async def test_a_probe_that_ends_leaves_its_unit_unmeasured_and_says_so(
    host: Host, state_dir: Path, shelf: Shelf
) -> None:
    shelf.add(Probe(name="opens", source=OPENS, unit=Unit.PROBE_1))
    probes = CustomProbes(shelf)
    executor = LocalExecutor(host=host, state_dir=state_dir, user="nobody", attachers=(probes,))

    await probes.take_in()
    seen = Unit.PROBE_1 in executor.unmeasurable
    shelf.remove("opens")
    await probes.take_in()

    assert not seen
    assert "`flyball probe add FILE --unit UNIT`" in executor.unmeasurable[Unit.PROBE_1]


@pytest.mark.usefixtures("bcc")
async def test_a_count_below_nothing_is_charged_as_what_the_books_hold_at_the_most(
    host: Host, state_dir: Path, shelf: Shelf
) -> None:
    below = OPENS.replace("flyball_count(1)", "flyball_count(-1)")
    shelf.add(Probe(name="opens", source=below, unit=Unit.PROBE_1))

    async with executor_with(host, state_dir, shelf, "opens") as executor:
        result = await ended(executor, shell("true"))

    assert result.attached[Unit.PROBE_1] == COUNT_MAX


@pytest.mark.usefixtures("bcc")
async def test_a_probe_counts_packets_on_the_groups_of_commands(
    host: Host, state_dir: Path, shelf: Shelf
) -> None:
    shelf.add(Probe(name="sent", source=SENT))
    source = (
        "import socket\n"
        "sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "for _ in range(7): sock.sendto(b'x', ('127.0.0.1', 9))\n"
    )

    async with executor_with(host, state_dir, shelf, "sent") as executor:
        result = await ended(executor, python(source))

    assert result.notes[-1] == "the probe sent counted 7"


@pytest.mark.usefixtures("bcc")
@pytest.mark.requirement("probes.fail-closed")
async def test_a_limit_on_a_probe_that_does_not_run_lets_no_command_begin(
    host: Host, state_dir: Path, shelf: Shelf
) -> None:
    async with executor_with(host, state_dir, shelf) as executor:
        with pytest.raises(CapabilityMissingError, match="the probe opens, which the rule limits"):
            await ended(executor, shell("true"), ("opens", 1))


@pytest.mark.usefixtures("bcc")
async def test_a_probe_of_one_session_counts_for_that_alone(
    host: Host, state_dir: Path, shelf: Shelf
) -> None:
    shelf.add(Probe(name="opens", source=OPENS, session="ses_1"))

    async with executor_with(host, state_dir, shelf, "opens") as executor:
        notes = [
            (await executor.run("call", shell("true"), limits(), session=session)).notes
            for session in ("ses_1", "ses_2")
        ]

    assert [len(found) for found in notes] == [1, 0]


@pytest.mark.usefixtures("bcc")
async def test_a_probe_whose_compiler_was_killed_is_started_again(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebpf.custom.probes.FOLLOW_SECONDS", 0.05)
    shelf.add(Probe(name="opens", source=OPENS))
    probes = CustomProbes(shelf)
    async with probes.followed():
        with anyio.fail_after(180):
            while not probes.running:
                await anyio.sleep(0.05)
            first = probes._running["opens"].process
            first.kill()
            await first.wait()
            while not probes.running or probes._running["opens"].process is first:
                await anyio.sleep(0.05)


@pytest.mark.usefixtures("bcc")
@pytest.mark.requirement("probes.no-wrong-structures")
async def test_without_the_running_kernels_headers_its_structures_do_not_compile() -> None:
    running = await start_probe(Probe(name="opens", source=OPENS))
    await running.stop()
    if running.headers != "of user space alone":
        pytest.skip(f"the headers are installed here: {running.headers}")

    with pytest.raises(ProbeError, match="incomplete definition of type"):
        await start_probe(Probe(name="inside", source=INSIDE))


@pytest.mark.usefixtures("bcc")
@pytest.mark.requirement("probes.no-wrong-structures")
async def test_the_headers_of_another_kernel_are_refused(tmp_path: Path) -> None:
    (tmp_path / "include" / "config").mkdir(parents=True)
    (tmp_path / "include" / "config" / "kernel.release").write_text("2.6.32-other\n")

    with pytest.raises(ProbeError, match=r"has the headers of 2\.6\.32-other, and this is"):
        await start_probe(Probe(name="opens", source=OPENS, headers=str(tmp_path)))


@pytest.mark.usefixtures("bcc")
async def test_what_does_not_compile_is_shown_with_the_line() -> None:
    with pytest.raises(ProbeError, match=r"main\.c:2.*undeclared"):
        await start_probe(Probe(name="bad", source="// first\nint egress(int a) { return b; }\n"))


@pytest.mark.usefixtures("bcc")
def test_probes_are_added_listed_and_removed_by_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "My-Opens.c").write_text(OPENS)
    place = ["--state", str(tmp_path / "state"), "--json"]
    (tmp_path / "state").mkdir(mode=0o700)

    def said(*words: str) -> tuple[int, dict[str, object]]:
        status = run_command(["probe", *place, *words])
        return status, json.loads(capsys.readouterr().out)

    assert said("add", str(tmp_path / "My-Opens.c"), "--session", "ses_1")[1]["name"] == "my_opens"
    assert said("list")[1] == {
        "probes": [{"name": "my_opens", "session": "ses_1", "headers": None, "unit": None}]
    }
    assert said("remove", "my_opens") == (0, {"removed": True})
    status, refused = said("remove", "my_opens")
    assert (status, refused["ok"]) == (2, False)
    assert refused["error"] == "my_opens is no probe here; there are: none"
    assert said("list")[1] == {"probes": []}
    source = str(tmp_path / "My-Opens.c")
    assert said("add", source, "--unit", "probe_2")[1]["unit"] == "probe_2"
    assert said("list")[1]["probes"][0]["unit"] == "probe_2"
    assert run_command(["probe", *place, "add", source, "--name", "b", "--unit", "probe_2"]) == 2
    assert "probe_2 is counted by my_opens" in capsys.readouterr().out
