"""Local commands: the machine's executor in the shape that the gateway asks for."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from typing import Protocol

import anyio

from ebpf.command import Command as DomainCommand
from ebpf.command import CommandResult, EndCause
from ebpf.energy import EnergyReading
from ebpf.errors import CapabilityMissingError, EbpfError, LaunchError
from ebpf.executor import LocalExecutor, Measured
from ebpf.ladder import LadderPlan
from governor.amounts import Amounts, Unit
from governor.call import CallStatus, Isolated
from governor.fairness.claim import Priority
from governor.ids import CallId
from governor.ladder import LadderTerms
from governor.limits import ExecutionLimits, SharedLimits
from governor.raising import MemoryAnswer, MemoryQuestion
from governor.scope import ScopeChain
from governor.usage import Usage
from runtime.endings import Shares, explanation_of
from runtime.energy import NO_ENERGY, Energy, EnergySource
from tool_gateway.errors import UpstreamFailedError, UpstreamNotReachedError
from tool_gateway.ports import Command, CommandOutcome, Meter
from tool_gateway.server_ports import ServerLimits, ServerUse

_MIB = 1024 * 1024


class RoomFor(Protocol):
    """Waits for room for a command of a session, and holds it."""

    def __call__(
        self, tenant: str, session: str, priority: Priority, *, expected_bytes: int | None
    ) -> AbstractAsyncContextManager[None]:
        """Return what is entered once there is room for what the command is expected to hold."""
        ...


def always_room(
    tenant: str,  # noqa: ARG001 - it is asked as others are
    session: str,  # noqa: ARG001
    priority: Priority,  # noqa: ARG001
    *,
    expected_bytes: int | None,  # noqa: ARG001
) -> AbstractAsyncContextManager[None]:
    """Let every command run at once."""
    return nullcontext()


class Asker(Protocol):
    """Whoever says whether a command that is out of memory gets more."""

    def asks(self, call: CallId) -> bool:
        """Tell whether anybody can be asked about a call."""
        ...

    async def ask(self, question: MemoryQuestion) -> MemoryAnswer:
        """Return the answer, within a bound of its own."""
        ...


class LocalCommands:
    """Runs commands through the executor and says in words how they ended."""

    def __init__(
        self,
        executor: LocalExecutor,
        *,
        workdir: str,
        at_once_max: int,
        is_frozen: Callable[[CallId], bool] = lambda _: False,
        energy: EnergySource = NO_ENERGY,
        shares: Shares | None = None,
        room: RoomFor = always_room,
        ladder: Callable[[], LadderTerms] = LadderTerms,
        asker: Asker | None = None,
    ) -> None:
        """Take the executor, where commands run that name no directory, and how many may run.

        Each command goes up the `ladder`, as its terms are then; the `asker` is asked for more
        memory for those that may be raised.

        `is_frozen` tells of a call that is about to start its command whether it must wait.
        `energy` says what each command drew, `shares` are the limits that a session's, and a
        tenant's, calls have together. `room` is waited for, and held, by each command.
        """
        self._room = room
        self._is_frozen = is_frozen
        self._ladder = ladder
        self._asker = asker
        self._executor = executor
        self._workdir = workdir
        self._at_once = 0
        self._energy = energy
        why = energy.why_unmeasurable
        self._without_energy = {} if why is None else {Unit.ENERGY_MJ: why}
        self._at_once_max = at_once_max
        self._shares = shares or {}

    @property
    def unmeasurable(self) -> Mapping[Unit, str]:
        """Return what this host cannot measure of a command now: probes come and go."""
        return {**self._executor.unmeasurable, **self._without_energy}

    def isolation_for(self, limits: ExecutionLimits, *, cwd: str | None) -> Isolated:
        """Return what would stand around a command with these limits."""
        return self._executor.isolation_for(limits, cwd=cwd or self._workdir)

    async def run(
        self,
        name: str,
        command: Command,
        limits: ExecutionLimits,
        meter: Meter,
        *,
        chain: ScopeChain,
        priority: Priority = Priority.NORMAL,
    ) -> CommandOutcome:
        """Run the command; its whole process tree is gone when this returns or is cancelled.

        Raises:
            UpstreamNotReachedError: the command could not be started.
            UpstreamFailedError: its domain failed around it.
        """
        if self._at_once >= self._at_once_max:
            raise UpstreamNotReachedError(
                f"{self._at_once_max} local commands run already (local.at_once_max); "
                "try again when one has ended"
            )
        self._at_once += 1
        asked = anyio.current_time()
        # Sub-sessions are carved out of it, and so is what they take of the machine.
        session = chain.sessions[0]
        try:
            expected_bytes = limits.memory_expected_bytes
            room = self._room(chain.tenant, session, priority, expected_bytes=expected_bytes)
            async with room:
                began, drawn = anyio.current_time(), self._energy.begin()
                ended = await self._executor.run(
                    name,
                    DomainCommand(
                        argv=command.argv,
                        cwd=command.cwd or self._workdir,
                        env=command.env,
                        stdin=command.stdin,
                    ),
                    limits,
                    tenant=chain.tenant,
                    session=session,
                    told=lambda measured: self._note(meter, measured, began, drawn),
                    is_frozen=self._is_frozen(CallId(name)),
                    plan=self._plan(CallId(name)),
                )
        except (LaunchError, CapabilityMissingError) as error:
            raise UpstreamNotReachedError(str(error)) from error
        except EbpfError as error:
            raise UpstreamFailedError(str(error)) from error
        finally:
            self._at_once -= 1
        energy = self._energy.used(drawn, cpu_ms=ended.cpu_ms)
        return CommandOutcome(
            status=_status(ended),
            exit_code=ended.exit_code,
            stdout=ended.stdout,
            stderr=ended.stderr,
            explanation=explanation_of(ended, limits, self._shares),
            notes=ended.notes,
            usage=self._usage(ended, energy, waited_ms=round((began - asked) * 1000)),
            isolated=replace(ended.isolated, energy_by=energy.by),
        )

    def _plan(self, call: CallId) -> LadderPlan:
        asker = self._asker
        is_asked = asker is not None and asker.asks(call)
        ask = asker.ask if asker is not None and is_asked else None
        return LadderPlan(terms=self._ladder(), ask=ask)

    def reached_by(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        """Return an environment whose search path leads nowhere that commands may not enter."""
        account = self._executor.account
        if account is None or "PATH" not in environment:
            return environment
        return {**environment, "PATH": account.reachable(environment["PATH"])}

    async def freeze(self, name: str) -> bool:
        """Let a command that runs stand still; tell whether there is one.

        Raises:
            UpstreamFailedError: the machine refused.
        """
        try:
            return await self._executor.freeze(name)
        except EbpfError as error:
            raise UpstreamFailedError(str(error)) from error

    async def thaw(self, name: str) -> bool:
        """Let a frozen command go on; tell whether there is one.

        Raises:
            UpstreamFailedError: the machine refused.
        """
        try:
            return await self._executor.thaw(name)
        except EbpfError as error:
            raise UpstreamFailedError(str(error)) from error

    def _note(
        self, meter: Meter, measured: Measured, began: float, drawn: EnergyReading | None
    ) -> None:
        if measured.cpu_ms is None:
            return
        wall_ms = None
        if measured.frozen_ms:
            # Only the machine knows for how long the command stood still: that is not its time.
            elapsed_ms = round((anyio.current_time() - began) * 1000)
            wall_ms = max(0, elapsed_ms - measured.frozen_ms)
        energy = self._energy.used(drawn, cpu_ms=measured.cpu_ms)
        meter.usage = Usage(
            measured=_amounts(
                measured.cpu_ms,
                measured.memory_mib_s,
                None,
                wall_ms,
                {**measured.attached, **energy.amounts},
            ),
            memory_peak_bytes=measured.memory_peak_bytes,
            curve=measured.curve,
        )

    def _usage(self, ended: CommandResult, energy: Energy, *, waited_ms: int) -> Usage:
        # Neither waiting for room nor standing still is a command's time.
        wall_ms = ended.wall_ms if ended.frozen_ms or waited_ms else None
        unmeasured = dict(ended.unmeasured)
        if energy.millijoules is None and not self._without_energy:
            unmeasured[Unit.ENERGY_MJ] = energy.why
        return Usage(
            measured=_amounts(
                ended.cpu_ms,
                ended.memory_mib_s,
                ended.io_bytes,
                wall_ms,
                {**ended.attached, **energy.amounts},
            ),
            unmeasured=unmeasured,
            memory_peak_bytes=ended.memory_peak_bytes,
            curve=ended.curve,
        )

    @property
    def server_unmeasurable(self) -> Mapping[Unit, str]:
        """Return what this host cannot measure of a server."""
        why = self._energy.why_no_estimate
        energy = {} if why is None else {Unit.ENERGY_MJ: why}
        return {**energy, **self._executor.server_unmeasurable}

    def wrap_server(
        self, name: str, argv: Sequence[str], limits: ServerLimits | None = None
    ) -> tuple[str, ...]:
        """Return the command that starts a stdio server inside a domain of its own.

        Raises:
            UpstreamNotReachedError: limits that are required cannot be enforced here.
        """
        if limits is None:
            return self._executor.servers.wrap(name, argv)
        wanted, why = _shared(limits), tree_shortfall(self._executor, limits)
        if why and limits.required:
            raise UpstreamNotReachedError(
                f'its limits cannot be enforced here: {why}; isolation = "best_effort" in '
                "them starts it all the same"
            )
        return self._executor.servers.wrap(name, argv, wanted)

    def server_use(self, name: str) -> ServerUse | None:
        """Return what a server has used, None where nobody can say."""
        found = self._executor.servers.measure(name)
        if found is None:
            return None
        life, measured = found
        energy = self._energy.estimate(measured.cpu_ms).amounts
        others = {**measured.attached, **energy}
        amounts = _amounts(measured.cpu_ms, None, measured.io_bytes, None, others)
        return ServerUse(life=life, totals=amounts.by_unit, memory_bytes=measured.memory_bytes)

    def server_killed_by(self, name: str) -> str:
        """Return in words for want of what the kernel has killed a server; empty if it has not."""
        found = self._executor.servers.measure(name)
        if found is None or not found[1].memory_kills:
            return ""
        measured = found[1]
        peak = measured.memory_peak_bytes
        seen = "" if peak is None else f" (peak {peak / _MIB:.0f} MiB)"
        match measured.killed_by:
            case EndCause.MEMORY:
                why = "at the memory limit of its table"
            case EndCause.HOST_MEMORY:
                why = "because the machine was out of memory"
            case _:
                why = "for want of memory; whose is not known"
        return f"the kernel killed a process of it {why}{seen}"

    def server_refused(self, name: str) -> str:
        """Return in words how often a limit kept a server from starting processes, if it did."""
        found = self._executor.servers.measure(name)
        if found is None or not found[1].pids_limit_hits:
            return ""
        hits = found[1].pids_limit_hits
        times = "once" if hits == 1 else f"{hits} times"
        return (
            f"it ended after the kernel had refused it {times} to start a process or thread, at "
            "the limit on pids of its table"
        )

    async def server_over(self, name: str) -> str:
        """Return in words which limit a server is over that the kernel does not end it by.

        Raises:
            UpstreamFailedError: its domain cannot be read.
        """
        try:
            cause = await self._executor.servers.over(name)
        except EbpfError as error:
            raise UpstreamFailedError(str(error)) from error
        return f"it was over the {cause.value} limit of its table, which is only sampled here"

    def server_started(self, name: str, pid: int) -> None:
        """Take note of the process that the server's command was started as."""
        self._executor.servers.started(name, pid)

    async def server_processes(self, name: str) -> tuple[int, ...]:
        """Return the ids of all processes of the server that live now."""
        try:
            return await self._executor.servers.processes(name)
        except EbpfError:
            return ()  # its domain was removed while it was looked at

    async def end_server(self, name: str) -> None:
        """Kill whatever is left of the server's tree and remove its domain."""
        await self._executor.servers.end(name)


def tree_shortfall(executor: LocalExecutor, limits: ServerLimits) -> str:
    """Return why a server's limits would not be enforced here; empty where they would."""
    return executor.servers.shortfall(_shared(limits))


def _shared(limits: ServerLimits) -> SharedLimits:
    return SharedLimits(
        memory_bytes=limits.memory_bytes, pids=limits.pids, cpu_millis=limits.cpu_millis
    )


def _amounts(
    cpu_ms: int | None,
    memory_mib_s: int | None,
    io_bytes: int | None,
    wall_ms: int | None,
    others: Mapping[Unit, int],
) -> Amounts:
    """Return the figures that are known."""
    found = {
        Unit.CPU_MS: cpu_ms,
        Unit.MEMORY_MIB_S: memory_mib_s,
        Unit.IO_BYTES: io_bytes,
        Unit.WALL_MS: wall_ms,
        **others,
    }
    return Amounts({unit: figure for unit, figure in found.items() if figure is not None})


def _status(ended: CommandResult) -> CallStatus:
    match ended.cause:
        case EndCause.EXITED:
            return CallStatus.OK if ended.exit_code == 0 else CallStatus.TOOL_ERROR
        case EndCause.SIGNALLED | EndCause.UNKNOWN:
            return CallStatus.TOOL_ERROR
        case EndCause.WALL:
            return CallStatus.TIMED_OUT
        case (
            EndCause.MEMORY
            | EndCause.PIDS
            | EndCause.CPU
            | EndCause.OUTPUT
            | EndCause.EGRESS
            | EndCause.STUCK
            | EndCause.PROBE
        ):
            return CallStatus.LIMIT_HIT
        case EndCause.SESSION_MEMORY | EndCause.TENANT_MEMORY | EndCause.HOST_MEMORY:
            return CallStatus.LIMIT_HIT
