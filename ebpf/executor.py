"""Runs local commands, each in a domain of its own."""

import hashlib
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio

from ebpf.attachment import Attacher, Attachment
from ebpf.capability import BackendKind, Capability, CapabilityState, Host
from ebpf.command import Command, CommandResult, EndCause
from ebpf.containment import Containment, account_of, containment_for
from ebpf.domains.domain import Domain, Domains, Measured, checked_name
from ebpf.domains.hybrid import HybridDomains
from ebpf.domains.observed import ObservedDomains
from ebpf.errors import CapabilityMissingError, DomainError
from ebpf.guarding import guarded
from ebpf.launching import Launched, launch
from ebpf.pausing import Pause
from ebpf.probe.pins import Pins
from ebpf.servers import CLEANUP_SECONDS_MAX, Servers
from ebpf.supervision import DRAIN_SECONDS_MAX, Captured, end_tree, final_cause, supervise
from governor.amounts import Unit
from governor.call import Enforcement, Isolated
from governor.limits import ExecutionLimits

__all__ = ["Command", "CommandResult", "EndCause", "LocalExecutor", "Measured", "instance_of"]

# A figure that leaves most of the writing out would be worse than none.
_NO_IO_HYBRID = "control groups of version 1 count no buffered writes for their group"
_NO_KEEPER = "this system has no keeper that adds it up"
_NO_EGRESS = "nothing here counts what a command sends"
_NOT_SEEN = {Unit.EGRESS_BYTES: _NO_EGRESS}


def _unheard(_: Measured) -> None:
    """Tell nobody."""


def instance_of(state_dir: Path) -> str:
    """Return the name of the sidecar that has this state directory."""
    return hashlib.sha256(os.fsencode(state_dir.resolve())).hexdigest()[:12]


class LocalExecutor:
    """Runs commands, and servers, in domains beneath the sidecar's own place on this host."""

    def __init__(
        self, *, host: Host, state_dir: Path, user: str, attachers: Sequence[Attacher] = ()
    ) -> None:
        """Take the host as probed; `user` is who commands run as when the sidecar is root.

        `attachers` hang something on each domain that has a group in the v2 hierarchy.

        Raises:
            CapabilityMissingError: the sidecar is root and `user` is no unprivileged user.
        """
        self._host = host
        self._state_dir = state_dir.resolve()
        self._account = account_of(user) if host.is_root else None
        instance = instance_of(self._state_dir)
        self._domains: Domains
        if host.backend is BackendKind.HYBRID:
            self._domains = HybridDomains(host.hierarchies, instance=instance, pid=os.getpid())
        else:
            uid = os.getuid() if self._account is None else self._account.uid
            self._domains = ObservedDomains(instance=instance, pid=os.getpid(), uid=uid)
        self.servers = Servers(self._domains)
        self._pauses: dict[str, Pause] = {}
        self._attachers = tuple(attachers)
        self._pins = Pins(instance=instance, pid=os.getpid())

    @property
    def unmeasurable(self) -> Mapping[Unit, str]:
        """Return what this host measures of no command, with the reasons."""
        egress = self._host.capability("egress_bytes")
        is_counted = egress.state is CapabilityState.ENFORCED
        unknown = {} if is_counted else {Unit.EGRESS_BYTES: egress.why}
        if self._host.backend is BackendKind.HYBRID:
            return {**unknown, Unit.IO_BYTES: _NO_IO_HYBRID}
        return unknown if sys.platform == "linux" else {**unknown, Unit.IO_BYTES: _NO_KEEPER}

    def isolation_for(self, limits: ExecutionLimits, cwd: str | None) -> Isolated:
        """Return what would stand around a command with these limits in this directory."""
        return self._isolated(limits, self._containment(cwd))

    async def run(
        self,
        name: str,
        command: Command,
        limits: ExecutionLimits,
        *,
        told: Callable[[Measured], None] = _unheard,
        is_frozen: bool = False,
    ) -> CommandResult:
        """Run a command to its end or to its limit; nothing of it is left afterwards.

        Its time limit does not run while it is frozen. One that `is_frozen` from the start
        does not begin before it is thawed.

        `told` hears what the command had used when its last process was gone, also when the
        run is cancelled and there is no result to read it from.

        Raises:
            LaunchError: the command never ran.
            CapabilityMissingError: it never ran, for nothing here holds one of its limits.
            DomainError: its domain could not be made, read, emptied or removed.
            ProbeError: what counts it could not be attached or read.
        """
        containment = self._containment(command.cwd)
        started = anyio.current_time()
        domain = self._domains.make(checked_name(name), limits)
        pause = self._pauses[name] = Pause(domain)
        launched: Launched | None = None
        attached: list[Attachment] = []
        try:
            self._attach(name, domain, limits, attached)
            if is_frozen:
                await pause.freeze()
            launched = await launch(
                command, entry=domain.entry, account=self._account, carve=containment.carve
            )
            domain.started(launched.process.pid)
            cause, captured = await supervise(
                launched,
                domain,
                stdin=command.stdin,
                limits=limits,
                pause=pause,
                attached=attached,
            )
            wall_ms = _elapsed_ms(started + pause.frozen_seconds)
            await launched.wait_until_gone()
            await _drain(attached, DRAIN_SECONDS_MAX if cause is EndCause.EXITED else 0)
            return _result(
                cause,
                captured,
                wall_ms=wall_ms,
                launched=launched,
                measured=_measured(domain, pause, attached),
                attached=attached,
                isolated=self._isolated(limits, containment),
                unmeasurable=self.unmeasurable,
            )
        finally:
            del self._pauses[name]
            await _discard(name, domain, launched, told=told, pause=pause, attached=attached)

    def _attach(
        self, name: str, domain: Domain, limits: ExecutionLimits, attached: list[Attachment]
    ) -> None:
        """Add to `attached` what each attacher hangs on the domain.

        Raises:
            CapabilityMissingError: nothing here holds a limit that is among these.
        """
        measured = frozenset[Unit]().union(*(one.measures for one in self._attachers))
        is_promised = self._host.capability("egress_bytes").state is CapabilityState.ENFORCED
        if limits.egress_bytes is not None and is_promised and Unit.EGRESS_BYTES not in measured:
            message = f"{name}: {_NO_EGRESS}, so it cannot be held to {limits.egress_bytes} bytes"
            raise CapabilityMissingError(message)
        if domain.unified is not None:
            # One by one: should one fail, those before it are still to be closed.
            group = domain.unified
            attached.extend(one.attach(name, group, limits) for one in self._attachers)

    async def freeze(self, name: str) -> bool:
        """Let a command that runs stand still until `thaw`; tell whether there is one.

        Raises:
            DomainError: the machine refused; it runs on.
        """
        return await self._paused(name, lambda pause: pause.freeze())

    async def thaw(self, name: str) -> bool:
        """Let a frozen command go on; tell whether there is one.

        Raises:
            DomainError: the machine refused; it stays frozen.
        """
        return await self._paused(name, lambda pause: pause.thaw())

    async def _paused(self, name: str, act: Callable[[Pause], Awaitable[None]]) -> bool:
        pause = self._pauses.get(name)
        if pause is None:
            return False
        try:
            await act(pause)
        except DomainError:
            # A command that ended meanwhile took its domain with it.
            if self._pauses.get(name) is pause:
                raise
            return False
        return True

    @asynccontextmanager
    async def guarded(self) -> AsyncIterator[None]:
        """Have whatever was started here end with this process, however that ends.

        To be entered before the first command or server. Control groups need a warden; without
        them each tree has a keeper, which sees to that itself.

        Raises:
            LaunchError: the warden cannot be started.
        """
        if isinstance(self._domains, HybridDomains):
            async with guarded(self._domains.groups):
                yield
        else:
            yield

    async def sweep(self) -> int:
        """Kill and remove what an earlier, dead sidecar of this state directory left behind.

        Returns how many domains that were. To be called once, before the first command.

        Raises:
            DomainError: one could not be emptied or removed.
        """
        count = await self._domains.sweep()
        self._pins.sweep()  # only now: what is pinned holds what runs there
        return count

    def _containment(self, cwd: str | None) -> Containment:
        return containment_for(
            landlock_abi=self._host.landlock_abi,
            account=self._account,
            state_dir=self._state_dir,
            cwd=cwd,
        )

    def _isolated(self, limits: ExecutionLimits, containment: Containment) -> Isolated:
        needed = _capabilities_for(limits, self._host)
        short = [found for found in needed if found.state is not CapabilityState.ENFORCED]
        absent = [found for found in short if found.state is CapabilityState.ABSENT]
        if absent:
            enforcement = Enforcement.NONE
        else:
            enforcement = Enforcement.OBSERVED if short else Enforcement.ENFORCED
        reasons = _reasons(absent or short)
        if containment.why:
            reasons.append(containment.why)
        return Isolated(
            enforcement=enforcement,
            contained=containment.contained,
            by=f"{self._host.backend}, {containment.by}",
            why="; ".join(reasons),
        )


def _capabilities_for(limits: ExecutionLimits, host: Host) -> list[Capability]:
    """Return what the host must be capable of for these limits to hold."""
    wanted = {
        "memory": limits.memory_bytes,
        "pids": limits.pids,
        "cpu_rate": limits.cpu_millis,
        "cpu_time": limits.cpu_ms,
        "wall": limits.wall_ms,
        "output": limits.output_bytes,
        "egress_bytes": limits.egress_bytes,
    }
    names = [name for name, limit in wanted.items() if limit is not None]
    return [host.capability(name) for name in (*names, "kill_tree")]


def _reasons(short: list[Capability]) -> list[str]:
    """Return one sentence for each reason, with all that it explains."""
    names: dict[str, list[str]] = {}
    for found in short:
        names.setdefault(f"{found.state}: {found.why}", []).append(found.name)
    return [f"{', '.join(sharing)} {reason}" for reason, sharing in names.items()]


def _result(
    cause: EndCause,
    captured: Captured,
    *,
    wall_ms: int,
    launched: Launched,
    measured: Measured,
    attached: Sequence[Attachment],
    isolated: Isolated,
    unmeasurable: Mapping[Unit, str],
) -> CommandResult:
    """Put together what is known once nothing of the command is left."""
    cpu_ms = measured.cpu_ms if launched.cpu_us is None else -(-launched.cpu_us // 1000)
    figures = {
        Unit.CPU_MS: cpu_ms,
        Unit.MEMORY_MIB_S: measured.memory_mib_s,
        Unit.IO_BYTES: launched.io_bytes,
        Unit.EGRESS_BYTES: measured.attached.get(Unit.EGRESS_BYTES),
    }
    code = launched.exit_code
    signalled = code is None or code < 0
    return CommandResult(
        cause=final_cause(
            cause,
            measured=measured,
            dropped_bytes=captured.dropped_bytes,
            signalled=signalled,
            attached=attached,
        ),
        exit_code=None if signalled else code,
        signal=-code if code is not None and code < 0 else None,
        stdout=captured.stdout.kept,
        stderr=captured.stderr.kept,
        stdout_dropped_bytes=captured.stdout.dropped_bytes,
        stderr_dropped_bytes=captured.stderr.dropped_bytes,
        wall_ms=wall_ms,
        cpu_ms=cpu_ms,
        memory_peak_bytes=measured.memory_peak_bytes,
        memory_mib_s=measured.memory_mib_s,
        io_bytes=launched.io_bytes,
        pids_limit_hits=measured.pids_limit_hits,
        frozen_ms=measured.frozen_ms,
        isolated=isolated,
        attached=measured.attached,
        notes=tuple(note for one in attached for note in one.notes()),
        unmeasured={
            unit: unmeasurable.get(unit, _NOT_SEEN.get(unit, "it ended before the first sample"))
            for unit, figure in figures.items()
            if figure is None
        },
    )


async def _discard(
    name: str,
    domain: Domain,
    launched: Launched | None,
    *,
    told: Callable[[Measured], None],
    pause: Pause,
    attached: Sequence[Attachment],
) -> None:
    """Kill what is inside a domain and remove it, even while its caller is being cancelled."""
    with anyio.move_on_after(CLEANUP_SECONDS_MAX, shield=True):
        try:
            if launched is None:
                await domain.kill()
            else:
                try:
                    await end_tree(launched, domain)
                finally:
                    await launched.aclose()
                await _drain(attached, 0)
                told(_measured(domain, pause, attached))
        finally:
            for one in attached:
                one.close()
        await domain.remove()
        return
    message = f"{name}: the domain was not gone after {CLEANUP_SECONDS_MAX} s"
    raise DomainError(message)


async def _drain(attached: Sequence[Attachment], seconds_max: float) -> None:
    """Let what a command that has ended left on its way go, or not if it was ended."""
    for one in attached:
        await one.drain(seconds_max=seconds_max)


def _measured(domain: Domain, pause: Pause, attached: Sequence[Attachment]) -> Measured:
    """Return what a command has used, and for how long it stood still."""
    counted: dict[Unit, int] = {}
    for one in attached:
        counted.update(one.measured())
    frozen_ms = round(pause.frozen_seconds * 1000)
    return replace(domain.measure(), frozen_ms=frozen_ms, attached=counted)


def _elapsed_ms(started: float) -> int:
    return round((anyio.current_time() - started) * 1000)
