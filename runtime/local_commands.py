"""Local commands: the machine's executor in the shape that the gateway asks for."""

from collections.abc import Callable, Mapping, Sequence

import anyio

from ebpf.command import Command as DomainCommand
from ebpf.command import CommandResult, EndCause
from ebpf.errors import CapabilityMissingError, EbpfError, LaunchError
from ebpf.executor import LocalExecutor, Measured
from governor.amounts import Amounts, Unit
from governor.call import CallStatus, Isolated
from governor.estimate import energy_mj
from governor.ids import CallId
from governor.limits import ExecutionLimits
from governor.usage import Usage
from tool_gateway.errors import UpstreamFailedError, UpstreamNotReachedError
from tool_gateway.ports import Command, CommandOutcome, Meter

_MIB = 1024 * 1024
_NO_ENERGY = "energy.watts_per_core is not set"


class LocalCommands:
    """Runs commands through the executor and says in words how they ended."""

    def __init__(
        self,
        executor: LocalExecutor,
        *,
        workdir: str,
        at_once_max: int,
        is_frozen: Callable[[CallId], bool] = lambda _: False,
        milliwatts_per_core: int | None = None,
    ) -> None:
        """Take the executor, where commands run that name no directory, and how many may run.

        `is_frozen` tells of a call that is about to start its command whether it must wait.
        `milliwatts_per_core` is what a busy core is taken to draw; None leaves energy unmeasured.
        """
        self._is_frozen = is_frozen
        self._executor = executor
        self._workdir = workdir
        self._at_once = 0
        self._milliwatts_per_core = milliwatts_per_core
        self._unmeasurable = dict(executor.unmeasurable)
        if milliwatts_per_core is None:
            self._unmeasurable[Unit.ENERGY_MJ] = _NO_ENERGY
        self._at_once_max = at_once_max

    @property
    def unmeasurable(self) -> Mapping[Unit, str]:
        """Return what this host cannot measure of any command."""
        return self._unmeasurable

    def isolation_for(self, limits: ExecutionLimits, *, cwd: str | None) -> Isolated:
        """Return what would stand around a command with these limits."""
        return self._executor.isolation_for(limits, cwd=cwd or self._workdir)

    async def run(
        self, name: str, command: Command, limits: ExecutionLimits, meter: Meter
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
        began = anyio.current_time()
        try:
            ended = await self._executor.run(
                name,
                DomainCommand(
                    argv=command.argv,
                    cwd=command.cwd or self._workdir,
                    env=command.env,
                    stdin=command.stdin,
                ),
                limits,
                told=lambda measured: self._note(meter, measured, began),
                is_frozen=self._is_frozen(CallId(name)),
            )
        except (LaunchError, CapabilityMissingError) as error:
            raise UpstreamNotReachedError(str(error)) from error
        except EbpfError as error:
            raise UpstreamFailedError(str(error)) from error
        finally:
            self._at_once -= 1
        return CommandOutcome(
            status=_status(ended),
            exit_code=ended.exit_code,
            stdout=ended.stdout,
            stderr=ended.stderr,
            explanation=explanation_of(ended, limits),
            notes=ended.notes,
            usage=self._usage(ended),
            isolated=ended.isolated,
        )

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

    def _note(self, meter: Meter, measured: Measured, began: float) -> None:
        if measured.cpu_ms is None:
            return
        wall_ms = None
        if measured.frozen_ms:
            # Only the machine knows for how long the command stood still: that is not its time.
            elapsed_ms = round((anyio.current_time() - began) * 1000)
            wall_ms = max(0, elapsed_ms - measured.frozen_ms)
        meter.usage = Usage(
            measured=self._amounts(
                measured.cpu_ms, measured.memory_mib_s, None, wall_ms, measured.attached
            ),
            memory_peak_bytes=measured.memory_peak_bytes,
        )

    def _usage(self, ended: CommandResult) -> Usage:
        wall_ms = ended.wall_ms if ended.frozen_ms else None
        return Usage(
            measured=self._amounts(
                ended.cpu_ms, ended.memory_mib_s, ended.io_bytes, wall_ms, ended.attached
            ),
            unmeasured=ended.unmeasured,
            memory_peak_bytes=ended.memory_peak_bytes,
        )

    def _amounts(
        self,
        cpu_ms: int | None,
        memory_mib_s: int | None,
        io_bytes: int | None,
        wall_ms: int | None,
        attached: Mapping[Unit, int],
    ) -> Amounts:
        """Return the figures that are known, and the energy that follows from them."""
        watts = self._milliwatts_per_core
        energy = None if cpu_ms is None or watts is None else energy_mj(cpu_ms, watts)
        found = {
            Unit.CPU_MS: cpu_ms,
            Unit.MEMORY_MIB_S: memory_mib_s,
            Unit.IO_BYTES: io_bytes,
            Unit.ENERGY_MJ: energy,
            Unit.WALL_MS: wall_ms,
            **attached,
        }
        return Amounts({unit: figure for unit, figure in found.items() if figure is not None})

    def wrap_server(self, name: str, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the command that starts a stdio server inside a domain of its own."""
        return self._executor.servers.wrap(name, argv)

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


def explanation_of(ended: CommandResult, limits: ExecutionLimits) -> str:
    """Return what a model needs to know about how a command ended; empty if it went well."""
    peak = ended.memory_peak_bytes
    seen = "" if peak is None else f" (peak {peak / _MIB:.1f} MiB)"
    match ended.cause:
        case EndCause.PIDS:
            said = (
                f"killed: it started more than {limits.pids} processes. Start fewer at a time; "
                "an administrator can raise pids in the rule"
            )
        case EndCause.EXITED:
            said = f"exit code {ended.exit_code}" if ended.exit_code else ""
        case EndCause.SIGNALLED:
            said = f"ended by signal {ended.signal}{seen}"
        case EndCause.MEMORY:
            said = (
                f"killed: it went over its memory limit of {(limits.memory_bytes or 0) / _MIB:.0f} "
                f"MiB{seen}. Nothing else was harmed. Work on less at a time, or read and write "
                "in a stream; an administrator can raise memory_mib in the rule"
            )
        case EndCause.CPU:
            said = (
                f"killed: it used up its {limits.cpu_ms} ms of processor time{seen}. Do less in "
                "one call, or split the work"
            )
        case EndCause.WALL:
            said = (
                f"killed after {limits.wall_ms} ms, its time limit{seen}. Do less in one call, "
                "split the work, or check whether it waits for input"
            )
        case EndCause.OUTPUT:
            said = (
                f"killed: it wrote more than {limits.output_bytes} bytes. Filter the output, or "
                "write it to a file and read parts of it"
            )
        case EndCause.EGRESS:
            said = _egress_explanation(ended, limits)
    if ended.pids_limit_hits:
        hint = f"{ended.pids_limit_hits} process starts were refused by the limit of {limits.pids}"
        said = f"{said}; {hint}" if said else hint
    return said


def _egress_explanation(ended: CommandResult, limits: ExecutionLimits) -> str:
    """Return what a model needs to know about a command that sent too much."""
    sent = ended.attached.get(Unit.EGRESS_BYTES, 0)
    told = f" ({'; '.join(ended.notes)})" if ended.notes else ""
    return (
        f"killed: it sent {sent} of the {limits.egress_bytes or 0} bytes that it may send, and "
        f"what went beyond was dropped{told}. Send less in one call, compressed or in parts, or "
        "keep it on this machine; an administrator can raise egress_bytes in the rule"
    )


def _status(ended: CommandResult) -> CallStatus:
    match ended.cause:
        case EndCause.EXITED:
            return CallStatus.OK if ended.exit_code == 0 else CallStatus.TOOL_ERROR
        case EndCause.SIGNALLED:
            return CallStatus.TOOL_ERROR
        case EndCause.WALL:
            return CallStatus.TIMED_OUT
        case EndCause.MEMORY | EndCause.PIDS | EndCause.CPU | EndCause.OUTPUT | EndCause.EGRESS:
            return CallStatus.LIMIT_HIT
