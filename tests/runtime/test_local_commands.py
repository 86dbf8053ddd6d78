"""Local commands as the gateway sees them: what a model is told, what is charged."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ebpf.command import Command as DomainCommand
from ebpf.command import CommandResult, EndCause, Level
from ebpf.containment import Account
from ebpf.errors import CapabilityMissingError, DomainError, EbpfError, LaunchError
from ebpf.executor import Measured
from ebpf.ladder import LadderPlan
from governor.amounts import Amounts, Unit
from governor.call import CallStatus, Enforcement, Isolated
from governor.fairness.claim import Priority
from governor.ids import PrincipalId, SessionId, TenantId
from governor.limits import UNLIMITED, ExecutionLimits, SharedLimits
from governor.scope import ScopeChain
from runtime.endings import explanation_of
from runtime.energy import EnergySource
from runtime.local_commands import LocalCommands, RoomFor, always_room
from tool_gateway.errors import GatewayError, UpstreamFailedError, UpstreamNotReachedError
from tool_gateway.ports import Command, Meter
from tool_gateway.server_ports import ServerLimits, ServerUse

MIB = 1024 * 1024
LIMITS = ExecutionLimits(
    memory_bytes=64 * MIB,
    pids=7,
    cpu_millis=500,
    cpu_ms=1500,
    wall_ms=2500,
    output_bytes=4096,
    egress_bytes=800,
)
SHARES = {
    Level.SESSION: SharedLimits(memory_bytes=256 * MIB, pids=40),
    Level.TENANT: SharedLimits(memory_bytes=1024 * MIB),
}
CHAIN = ScopeChain(
    tenant=TenantId("acme"),
    agent=PrincipalId("ada"),
    session=SessionId("ses_below"),
    ancestors=(SessionId("ses_1"),),
)
FENCED = Isolated(enforcement=Enforcement.ENFORCED, contained=True, by="hybrid")
COMMAND = Command(argv=("/bin/true",), cwd=None, env={"A": "b"}, stdin=b"in")

# How a command of each cause ended, and the words that its explanation must have.
ENDINGS: dict[EndCause, tuple[dict[str, Any], tuple[str, ...]]] = {
    EndCause.EXITED: ({"exit_code": 3}, ("exit code 3",)),
    EndCause.SIGNALLED: ({"signal": 11}, ("signal 11", "peak 12.5 MiB", "no limit sent")),
    EndCause.SESSION_MEMORY: ({"signal": 9}, ("this session", "256 MiB", "peak 12.5 MiB", "or")),
    EndCause.TENANT_MEMORY: ({"signal": 9}, ("this tenant", "1024 MiB", "[local.tenant]")),
    EndCause.HOST_MEMORY: ({"signal": 9}, ("the whole machine", "no limit of this call", "or")),
    EndCause.UNKNOWN: ({"signal": 9}, ("nothing that was counted", "Try it once more, or")),
    EndCause.MEMORY: ({"signal": 9}, ("memory limit of 64 MiB", "peak 12.5 MiB", "memory_mib")),
    EndCause.PIDS: ({"signal": 9}, ("more than 7 processes", "pids")),
    EndCause.CPU: ({"signal": 9}, ("1500 ms of processor time", "peak 12.5 MiB")),
    EndCause.WALL: ({"signal": 9}, ("2500 ms, its time limit", "peak 12.5 MiB")),
    EndCause.OUTPUT: ({"signal": 9}, ("more than 4096 bytes", "Filter the output")),
    EndCause.EGRESS: (
        {"signal": 9, "sent": 750, "notes": ("refused 2 packets, the first to 10.0.0.9:443",)},
        (
            "sent 750 of the 800 bytes",
            "the first to 10.0.0.9:443",
            "Send less in one call",
            "raise egress_bytes",
        ),
    ),
    EndCause.STUCK: (
        {"signal": 9},
        ("no progress within its", "64 MiB", "memory_mib"),
    ),
    EndCause.PROBE: ({"signal": 9}, ("a probe counted more", "probe_limits")),
}
STATUSES = {
    EndCause.EXITED: CallStatus.TOOL_ERROR,
    EndCause.SIGNALLED: CallStatus.TOOL_ERROR,
    EndCause.MEMORY: CallStatus.LIMIT_HIT,
    EndCause.SESSION_MEMORY: CallStatus.LIMIT_HIT,
    EndCause.TENANT_MEMORY: CallStatus.LIMIT_HIT,
    EndCause.HOST_MEMORY: CallStatus.LIMIT_HIT,
    EndCause.UNKNOWN: CallStatus.TOOL_ERROR,
    EndCause.PIDS: CallStatus.LIMIT_HIT,
    EndCause.CPU: CallStatus.LIMIT_HIT,
    EndCause.WALL: CallStatus.TIMED_OUT,
    EndCause.OUTPUT: CallStatus.LIMIT_HIT,
    EndCause.EGRESS: CallStatus.LIMIT_HIT,
    EndCause.STUCK: CallStatus.LIMIT_HIT,
    EndCause.PROBE: CallStatus.LIMIT_HIT,
}


def ended(
    cause: EndCause = EndCause.EXITED,
    *,
    exit_code: int | None = None,
    signal: int | None = None,
    cpu_ms: int | None = 40,
    memory_peak_bytes: int | None = 25 * MIB // 2,
    pids_limit_hits: int = 0,
    frozen_ms: int = 0,
    unmeasured: Mapping[Unit, str] | None = None,
    sent: int | None = None,
    notes: tuple[str, ...] = (),
) -> CommandResult:
    return CommandResult(
        cause=cause,
        exit_code=exit_code,
        signal=signal,
        stdout=b"out",
        stderr=b"err",
        stdout_dropped_bytes=0,
        stderr_dropped_bytes=0,
        wall_ms=50,
        cpu_ms=cpu_ms,
        memory_peak_bytes=memory_peak_bytes,
        pids_limit_hits=pids_limit_hits,
        frozen_ms=frozen_ms,
        isolated=FENCED,
        attached={} if sent is None else {Unit.EGRESS_BYTES: sent},
        notes=notes,
        unmeasured=unmeasured or {},
    )


MEASURED = Measured(cpu_ms=7, memory_peak_bytes=4096)


class Executor:
    """An executor that ends each command as a test says."""

    def __init__(self, ending: CommandResult | EbpfError) -> None:
        self._ending = ending
        self.ran: list[tuple[str, DomainCommand, ExecutionLimits]] = []
        self.places: list[tuple[str, str]] = []
        self.asked_cwd: list[str | None] = []
        self.started_servers: list[tuple[str, int]] = []
        self.ended_servers: list[str] = []
        self.frozen_at_start: list[bool] = []
        self.unmeasurable = {Unit.EGRESS_BYTES: "nobody counts it"}
        self.server_limits: list[SharedLimits] = []
        self.measured: tuple[int, Measured] | None = None
        self.short = ""
        self.account: Account | None = None

    async def run(
        self,
        name: str,
        command: DomainCommand,
        limits: ExecutionLimits,
        *,
        tenant: str,
        session: str,
        told: Callable[[Measured], None] | None = None,
        is_frozen: bool = False,
        plan: LadderPlan | None = None,
    ) -> CommandResult:
        self.places.append((tenant, session))
        self.frozen_at_start.append(is_frozen)
        if told is not None:
            told(MEASURED)
        self.ran.append((name, command, limits))
        if isinstance(self._ending, EbpfError):
            raise self._ending
        return self._ending

    async def freeze(self, name: str) -> bool:
        if isinstance(self._ending, EbpfError):
            raise self._ending
        return name == "runs"

    thaw = freeze

    def isolation_for(self, limits: ExecutionLimits, cwd: str | None) -> Isolated:
        self.asked_cwd.append(cwd)
        return FENCED

    @property
    def servers(self) -> "Servers":
        return Servers(self)


class Servers:
    def __init__(self, executor: Executor) -> None:
        self._executor = executor

    def wrap(
        self, name: str, argv: Sequence[str], limits: SharedLimits = UNLIMITED
    ) -> tuple[str, ...]:
        self._executor.server_limits.append(limits)
        return ("enter", name, *argv)

    def shortfall(self, limits: SharedLimits) -> str:
        return self._executor.short

    def measure(self, name: str) -> tuple[int, Measured] | None:
        return self._executor.measured

    def started(self, name: str, pid: int) -> None:
        self._executor.started_servers.append((name, pid))

    async def processes(self, name: str) -> tuple[int, ...]:
        if name == "gone":
            raise DomainError
        return (7, 8)

    async def end(self, name: str) -> None:
        self._executor.ended_servers.append(name)


def commands(
    ending: CommandResult | EbpfError,
    *,
    milliwatts_per_core: int | None = None,
    room: RoomFor = always_room,
) -> tuple[LocalCommands, Executor]:
    executor = Executor(ending)
    local = LocalCommands(
        executor,
        workdir="/srv/work",
        at_once_max=2,
        energy=EnergySource(elapsed_ms=lambda: 0, milliwatts_per_core=milliwatts_per_core),
        shares=SHARES,
        room=room,
    )
    return local, executor


def test_the_table_of_endings_has_every_cause() -> None:
    assert set(ENDINGS) == set(STATUSES) == set(EndCause)


@pytest.mark.anyio
async def test_a_command_waits_for_room_for_what_it_is_expected_to_hold() -> None:
    waited: list[tuple[str, str, Priority, int | None]] = []

    def room(
        tenant: str, session: str, priority: Priority, *, expected_bytes: int | None
    ) -> AbstractAsyncContextManager[None]:
        waited.append((tenant, session, priority, expected_bytes))
        return nullcontext()

    local, _ = commands(ended(exit_code=0), room=room)
    limits = replace(LIMITS, memory_expected_bytes=48 * MIB)
    await local.run("call_1", COMMAND, limits, Meter(), chain=CHAIN)

    assert waited == [("acme", "ses_1", Priority.NORMAL, 48 * MIB)]


@pytest.mark.anyio
async def test_a_command_runs_in_the_place_of_its_tenant_and_its_uppermost_session() -> None:
    local, executor = commands(ended(exit_code=0))

    await local.run("call_1", COMMAND, LIMITS, Meter(), chain=CHAIN)

    assert executor.places == [("acme", "ses_1")]


@pytest.mark.anyio
@pytest.mark.parametrize("cause", EndCause)
async def test_every_ending_has_its_status(cause: EndCause) -> None:
    figures, _ = ENDINGS[cause]
    local, _ = commands(ended(cause, **figures))

    outcome = await local.run("call_1", COMMAND, LIMITS, Meter(), chain=CHAIN)

    assert outcome.status is STATUSES[cause]
    assert outcome.explanation == explanation_of(ended(cause, **figures), LIMITS, SHARES)


@pytest.mark.anyio
async def test_a_command_that_exits_with_zero_is_ok() -> None:
    local, _ = commands(ended(exit_code=0))

    outcome = await local.run("call_1", COMMAND, LIMITS, Meter(), chain=CHAIN)

    assert (outcome.status, outcome.exit_code) == (CallStatus.OK, 0)
    assert (outcome.stdout, outcome.stderr) == (b"out", b"err")
    assert outcome.isolated == FENCED


@pytest.mark.anyio
async def test_the_measured_processor_time_is_what_is_charged() -> None:
    local, _ = commands(ended(exit_code=0))

    usage = (await local.run("call_1", COMMAND, LIMITS, Meter(), chain=CHAIN)).usage

    assert usage.measured == Amounts({Unit.CPU_MS: 40})
    assert usage.memory_peak_bytes == 25 * MIB // 2


@pytest.mark.anyio
async def test_memory_and_disk_traffic_are_charged_as_the_domain_saw_them() -> None:
    local, _ = commands(replace(ended(exit_code=0), memory_mib_s=9, io_bytes=512))

    usage = (await local.run("call_1", COMMAND, LIMITS, Meter(), chain=CHAIN)).usage

    assert usage.measured.as_dict() == {"cpu_ms": 40, "memory_mib_s": 9, "io_bytes": 512}
    assert usage.estimated == (Unit.MEMORY_MIB_S,)


@pytest.mark.anyio
@pytest.mark.requirement("energy.is-an-estimate")
async def test_energy_is_reckoned_from_processor_time_where_the_draw_of_a_core_is_known() -> None:
    meter = Meter()
    dark, _ = commands(ended(exit_code=0))
    local, _ = commands(ended(exit_code=0), milliwatts_per_core=7_030)

    usage = (await local.run("call_1", COMMAND, LIMITS, meter, chain=CHAIN)).usage

    assert usage.measured.of(Unit.ENERGY_MJ) == 282  # 40 ms at 7.03 W, rounded up
    assert usage.estimated == (Unit.ENERGY_MJ,)
    assert meter.usage is not None
    assert meter.usage.measured.of(Unit.ENERGY_MJ) == 50
    assert set(local.unmeasurable) == {Unit.EGRESS_BYTES}
    assert set(dark.unmeasurable) == {Unit.EGRESS_BYTES, Unit.ENERGY_MJ}


@pytest.mark.anyio
async def test_processor_time_that_nobody_measured_is_unknown_and_not_zero() -> None:
    why = {Unit.CPU_MS: "it ended before the first sample"}
    local, _ = commands(ended(exit_code=0, cpu_ms=None, memory_peak_bytes=None, unmeasured=why))

    usage = (await local.run("call_1", COMMAND, LIMITS, Meter(), chain=CHAIN)).usage

    assert Unit.CPU_MS not in usage.measured
    assert usage.unmeasured == why
    assert usage.memory_peak_bytes is None


@pytest.mark.anyio
@pytest.mark.parametrize(("asked", "ran_in"), [(None, "/srv/work"), ("/srv/other", "/srv/other")])
async def test_a_command_that_names_no_directory_runs_in_the_configured_one(
    asked: str | None, ran_in: str
) -> None:
    local, executor = commands(ended(exit_code=0))
    command = Command(argv=COMMAND.argv, cwd=asked, env=COMMAND.env, stdin=COMMAND.stdin)

    await local.run("call_1", command, LIMITS, Meter(), chain=CHAIN)
    isolated = local.isolation_for(LIMITS, cwd=asked)

    expected = DomainCommand(argv=("/bin/true",), cwd=ran_in, env={"A": "b"}, stdin=b"in")
    assert executor.ran == [("call_1", expected, LIMITS)]
    # What is promised before the run is promised for the directory of the run.
    assert executor.asked_cwd == [ran_in]
    assert isolated == FENCED


def test_the_search_path_of_commands_leads_nowhere_that_they_may_not_enter(tmp_path: Path) -> None:
    local, executor = commands(LaunchError())
    tmp_path.chmod(0o700)
    environment = {"PATH": f"{tmp_path}:/usr/bin", "LANG": "C"}

    same_user = local.reached_by(environment)
    executor.account = Account(uid=54_321, gid=54_321)

    assert same_user == environment
    assert local.reached_by(environment) == {"PATH": "/usr/bin", "LANG": "C"}


@pytest.mark.anyio
@pytest.mark.requirement("upstream.refused-is-released")
@pytest.mark.parametrize("error", [LaunchError("no such program"), CapabilityMissingError("no")])
async def test_a_command_that_never_ran_was_provably_not_reached(error: EbpfError) -> None:
    local, _ = commands(error)

    with pytest.raises(UpstreamNotReachedError) as caught:
        await local.run("call_1", COMMAND, LIMITS, Meter(), chain=CHAIN)

    assert str(caught.value) == str(error)
    assert caught.value.__cause__ is error


@pytest.mark.anyio
async def test_a_domain_that_fails_around_a_command_is_a_failure_that_may_have_cost() -> None:
    error = DomainError("the domain could not be emptied")
    local, _ = commands(error)

    with pytest.raises(GatewayError) as caught:
        await local.run("call_1", COMMAND, LIMITS, Meter(), chain=CHAIN)

    assert type(caught.value) is UpstreamFailedError
    assert caught.value.__cause__ is error


@pytest.mark.anyio
async def test_a_server_is_started_and_ended_in_a_domain_of_its_own() -> None:
    local, executor = commands(ended())

    argv = local.wrap_server("git", ["mcp-server-git"])
    local.server_started("git", 7)
    found = await local.server_processes("git"), await local.server_processes("gone")
    await local.end_server("git")

    assert argv == ("enter", "git", "mcp-server-git")
    assert executor.started_servers == [("git", 7)]
    assert found == ((7, 8), ())
    assert executor.ended_servers == ["git"]


@pytest.mark.requirement("servers.limits")
def test_a_server_has_its_limits_or_is_not_started_unless_it_may_do_without() -> None:
    local, executor = commands(ended())
    limits = ServerLimits(memory_bytes=MIB, pids=7, cpu_millis=500)

    local.wrap_server("git", ["git"], limits)
    executor.short = "cpu_rate absent: no control groups"
    with pytest.raises(UpstreamNotReachedError, match=r"no control groups.*best_effort"):
        local.wrap_server("git", ["git"], limits)
    local.wrap_server("git", ["git"], replace(limits, required=False))

    found = executor.server_limits
    assert [(one.memory_bytes, one.pids, one.cpu_millis) for one in found] == [(MIB, 7, 500)] * 2


def test_a_server_s_use_is_what_was_counted_since_its_start() -> None:
    local, executor = commands(ended())

    nothing = local.server_use("git"), local.server_killed_by("git")
    executor.measured = (3, replace(MEASURED, memory_bytes=4096))
    known = local.server_use("git")
    executor.measured = (
        3,
        replace(MEASURED, memory_kills=1, memory_peak_bytes=64 * MIB, killed_by=EndCause.MEMORY),
    )

    assert nothing == (None, "")
    assert known == ServerUse(life=3, totals={Unit.CPU_MS: 7}, memory_bytes=4096)
    assert "memory limit of its table (peak 64 MiB)" in local.server_killed_by("git")


def test_a_server_that_was_kept_from_starting_processes_is_told_by_which_limit() -> None:
    local, executor = commands(ended())

    executor.measured = (3, MEASURED)
    nothing = local.server_refused("git")
    executor.measured = (3, replace(MEASURED, pids_limit_hits=2))

    assert nothing == ""
    assert "2 times" in local.server_refused("git")
    assert "the limit on pids of its table" in local.server_refused("git")


@pytest.mark.anyio
async def test_the_time_that_a_command_stood_still_is_not_charged() -> None:
    local, _ = commands(ended(exit_code=0, frozen_ms=900))

    usage = (await local.run("call_1", COMMAND, LIMITS, Meter(), chain=CHAIN)).usage

    assert usage.measured == Amounts({Unit.CPU_MS: 40, Unit.WALL_MS: 50})


@pytest.mark.anyio
async def test_a_call_of_a_frozen_session_starts_its_command_frozen() -> None:
    executor = Executor(ended(exit_code=0))
    local = LocalCommands(
        executor, workdir="/", at_once_max=2, is_frozen=lambda call_id: call_id == "call_2"
    )

    for name in ("call_1", "call_2"):
        await local.run(name, COMMAND, LIMITS, Meter(), chain=CHAIN)

    assert executor.frozen_at_start == [False, True]


@pytest.mark.anyio
async def test_freezing_reaches_the_machine_and_its_refusal_is_said_in_the_gateways_words() -> None:
    local, _ = commands(ended())
    stubborn, _ = commands(DomainError("it runs on"))

    for act in (local.freeze, local.thaw):
        assert (await act("runs"), await act("ended")) == (True, False)
    for act in (stubborn.freeze, stubborn.thaw):
        with pytest.raises(UpstreamFailedError, match="it runs on"):
            await act("runs")


@pytest.mark.anyio
async def test_what_was_sent_is_measured_and_whom_it_went_to_is_noted() -> None:
    local, _ = commands(ended(exit_code=0, sent=750, notes=("connected to 10.0.0.9:443 (curl)",)))

    outcome = await local.run("call_1", COMMAND, LIMITS, Meter(), chain=CHAIN)

    assert outcome.usage.measured.of(Unit.EGRESS_BYTES) == 750
    assert outcome.notes == ("connected to 10.0.0.9:443 (curl)",)
    assert outcome.explanation == ""
