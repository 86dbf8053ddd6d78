"""Runs local commands, each in a domain of its own."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread

from ebpf.agents import Agent, AgentEntry, entered
from ebpf.attachment import Attacher, Attachment, closing
from ebpf.capability import CapabilityState, Host
from ebpf.command import Command, CommandResult, EndCause
from ebpf.confining.confiner import Confiner, Held
from ebpf.containment import Containment, account_of, containment_for
from ebpf.domains.domain import Domain, Measured
from ebpf.domains.hierarchies import UNIFIED
from ebpf.domains.place import Place
from ebpf.domains.tree import GroupDomains
from ebpf.errors import CapabilityMissingError, DomainError
from ebpf.fences import domains_on, instance_of, observed_on
from ebpf.guarding import guarded
from ebpf.ladder import LadderPlan, ladder_on
from ebpf.launching import Launched, launch
from ebpf.means import NOT_JOINABLE, held_on, host_of_agent, system_calls_for
from ebpf.pausing import Pause
from ebpf.probe.pins import Pins
from ebpf.promises import isolated
from ebpf.servers import CLEANUP_SECONDS_MAX, Servers
from ebpf.session_group import SessionGroup
from ebpf.spawning import Spawner, can_spawn, spawning
from ebpf.stillness import Stillness
from ebpf.supervision import DRAIN_SECONDS_MAX, Captured, empty, final_cause, supervise
from ebpf.unseen import NO_EGRESS, units_of, unseen_of_commands, unseen_of_servers, why_not_seen
from governor.amounts import Unit
from governor.call import Enforcement, Isolated
from governor.confines import Confines
from governor.limits import UNLIMITED, ExecutionLimits, SharedLimits
from governor.raising import Story
from governor.usage import OF_PROBES

__all__ = ["Command", "CommandResult", "EndCause", "LocalExecutor", "Measured", "instance_of"]

# Whose the commands are that belong to no agent.
_LOCAL = "local"


def _unheard(_: Measured) -> None:
    """Tell nobody."""


class LocalExecutor:
    """Runs commands, and servers, in domains beneath the sidecar's own place on this host."""

    def __init__(
        self,
        *,
        host: Host,
        state_dir: Path,
        user: str,
        session_limits: SharedLimits = UNLIMITED,
        tenant_limits: SharedLimits = UNLIMITED,
        attachers: Sequence[Attacher] = (),
    ) -> None:
        """Take the host as probed; `user` is who commands run as when the sidecar is root.

        `session_limits` hold for all commands of one session together, `tenant_limits` for all
        of one tenant. `attachers` hang something on each domain that has a group in the v2
        hierarchy.

        Raises:
            CapabilityMissingError: the sidecar is root and `user` is no unprivileged user.
        """
        self._host = host
        self._state_dir = state_dir.resolve()
        self.account = account_of(user) if host.is_root else None
        self._shares = (session_limits, tenant_limits)
        uid = os.getuid() if self.account is None else self.account.uid
        self._observed = observed_on(state_dir=self._state_dir, uid=uid)
        self._domains = domains_on(
            host, self._observed, self._state_dir, session=session_limits, tenant=tenant_limits
        )
        self.servers = Servers(self._domains, host)
        self._spawner = Spawner(is_root=self.account is not None) if can_spawn() else None
        self._running: dict[str, Domain] = {}
        self._pauses: dict[str, Pause] = {}
        self.stillness = Stillness()
        self._attachers = tuple(attachers)
        self._pins = Pins(instance=instance_of(self._state_dir), pid=os.getpid())
        self._confiner = Confiner()

    @property
    def unmeasurable(self) -> Mapping[Unit, str]:
        """Return what this host measures of no command that starts now, with the reasons."""
        return unseen_of_commands(self._host, self._attachers)

    @property
    def server_unmeasurable(self) -> Mapping[Unit, str]:
        """Return what this host measures of no server, with the reasons."""
        return unseen_of_servers(self._host, has_groups=bool(self._domains.groups))

    def isolation_for(self, limits: ExecutionLimits, cwd: str | None) -> Isolated:
        """Return what would stand around a command with these limits in this directory."""
        return self._isolated(limits, self._containment(cwd, limits.confines))

    async def run(
        self,
        name: str,
        command: Command,
        limits: ExecutionLimits,
        *,
        tenant: str = _LOCAL,
        session: str = _LOCAL,
        told: Callable[[Measured], None] = _unheard,
        is_frozen: bool = False,
        plan: LadderPlan | None = None,
    ) -> CommandResult:
        """Run a command to its end or to its limit; nothing of it is left afterwards.

        It shares what `session` may have with the session's other commands, and what `tenant`
        may have with those of the tenant. Its time limit does not run while it is frozen. One
        that `is_frozen` from the start does not begin before it is thawed. With a `plan` it goes
        up a ladder before its memory limit ends it. `told` hears what the command had used when
        its last process was gone, also when the run is cancelled and gives no result.

        Raises:
            LaunchError: the command never ran.
            CapabilityMissingError: it never ran, for nothing here holds one of its limits.
            DomainError: its domain could not be made, read, emptied or removed.
            ProbeError: what counts it could not be attached or read.
        """
        containment = self._containment(command.cwd, limits.confines)
        started = anyio.current_time()
        place = Place(tenant=tenant, session=session, call=name)
        domain = self._running[name] = self._domains.make(place, limits)
        pause = self._pauses[name] = self.stillness.joined((tenant, session), Pause(domain))
        launched, attached = None, list[Attachment]()
        try:
            await self._attach(name, domain, limits, attached)
            ladder = ladder_on(name, domain, pause, limits, plan)
            if is_frozen:
                await pause.freeze()
            launched = await self._launch(command, domain, containment, limits.confines)
            domain.started(launched.process.pid)
            cause, captured = await supervise(
                launched,
                domain,
                stdin=command.stdin,
                limits=limits,
                pause=pause,
                attached=attached,
                ladder=ladder,
            )
            wall_ms = _elapsed_ms(started + pause.frozen_seconds)
            await _until_gone(launched, attached, cause)
            return _result(
                cause,
                captured,
                wall_ms=wall_ms,
                launched=launched,
                measured=_measured(domain, pause, attached),
                attached=attached,
                isolated=self._isolated(limits, containment),
                unmeasurable=self.unmeasurable,
                story=None if ladder is None else ladder.story,
            )
        finally:
            del self._pauses[name], self._running[name]
            self.stillness.left((tenant, session), pause)
            await _discard(name, domain, launched, told=told, pause=pause, attached=attached)

    async def _launch(
        self, command: Command, domain: Domain, containment: Containment, confines: Confines
    ) -> Launched:
        """Return a command that has begun inside its domain, or raise as `launch` does."""
        return await launch(
            command,
            entry=domain.entry,
            account=self.account,
            carve=containment.carve,
            system_calls=system_calls_for(confines, self._host),
            spawner=self._spawner,
        )

    async def _attach(
        self, name: str, domain: Domain, limits: ExecutionLimits, attached: list[Attachment]
    ) -> None:
        """Add to `attached` what holds the domain to its confines, and what each attacher hangs on.

        Raises:
            CapabilityMissingError: nothing here holds a limit that is among these.
        """
        measured = units_of(self._attachers)
        is_promised = self._host.capability("egress_bytes").state is CapabilityState.ENFORCED
        if limits.egress_bytes is not None and is_promised and Unit.EGRESS_BYTES not in measured:
            message = f"{name}: {NO_EGRESS}, so it cannot be held to {limits.egress_bytes} bytes"
            raise CapabilityMissingError(message)
        if domain.unified is not None:
            # One by one: should one fail, those before it are still to be closed.
            group = domain.unified
            attached += await held_on(self._confiner, group, limits.confines, self._host)
            attached.extend(one.attach(name, group, limits) for one in self._attachers)

    @asynccontextmanager
    async def agent(
        self,
        name: str,
        limits: ExecutionLimits,
        *,
        cwd: str,
        tenant: str = _LOCAL,
        session: str = _LOCAL,
        user: str | None = None,
        is_joinable: bool = True,
    ) -> AsyncIterator[Agent]:
        """Yield a domain for an agent that somebody else of this user starts.

        `user` is whom a root's launcher has it become. One that is not `is_joinable`, because
        its launcher may not enter groups here, is only observed. `freeze` and `thaw` know it
        by its name.

        Raises:
            CapabilityMissingError: `user` is no unprivileged user, or nothing holds a limit.
            DomainError: its domain could not be made, emptied or removed.
            ProbeError: what counts it could not be attached.
        """
        account = None if user is None else account_of(user)
        containment = containment_for(
            landlock_abi=self._host.landlock_abi,
            account=account,
            state_dir=self._state_dir,
            cwd=cwd,
            confines=limits.confines,
        )
        domains = self._domains if is_joinable else self._observed
        place = Place(tenant=tenant, session=session, call=name, ends_together=False)
        domain = domains.make(place, limits)
        # Above an agent there is its launcher, which keeps the terminal.
        inside = AgentEntry(
            entry=replace(domain.entry, keeper=False), account=account, containment=containment
        )
        domain.entry = inside.entry
        host = host_of_agent(self._host, is_joinable=is_joinable)
        held = isolated(host, limits, self._shares, containment)
        if not is_joinable and held.enforcement is not Enforcement.NONE:
            held = replace(held, enforcement=Enforcement.OBSERVED, by="samples", why=NOT_JOINABLE)
        attached: list[Attachment] = []
        async with entered(
            name, domain, self._pauses, inside=inside, isolated=held, attached=attached
        ) as agent:
            await self._attach(name, domain, limits, attached)
            yield agent

    def session_group(self, tenant: str, session: str) -> SessionGroup | None:
        """Return the group that a session's commands are in now; None where there is none.

        Hosts with version 1 alone have none that could be frozen and watched.
        """
        if not isinstance(self._domains, GroupDomains):
            return None
        found = self._domains.session_directories(tenant, session)
        if found is None or UNIFIED not in found:
            return None
        weight, kept = self._shares[0].cpu_weight, self._shares[0].memory_low_bytes
        return SessionGroup(
            {name: found.get(name, found[UNIFIED]) for name in ("memory", "cpu", UNIFIED)},
            usual_weight=weight,
            protected_bytes_min=kept or 0,
        )

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

    async def set_limits(self, name: str, limits: ExecutionLimits) -> bool:
        """Give a command that runs other limits; tell whether there is one.

        The time limit and that of the output stay as they were.

        Raises:
            DomainError: the machine refused one, or more is in use than it would allow.
        """
        domain = self._running.get(name)
        if domain is None:
            return False
        try:
            # The kernel takes memory back before it answers, which can take a while.
            await anyio.to_thread.run_sync(domain.set_limits, limits)
        except DomainError:
            # A command that ended meanwhile took its domain with it.
            if self._running.get(name) is domain:
                raise
            return False
        return True

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
            LaunchError: the warden or the spawner cannot be started.
        """
        with spawning(self._spawner):
            if self._domains.groups:
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

    def _containment(self, cwd: str | None, confines: Confines) -> Containment:
        return containment_for(
            landlock_abi=self._host.landlock_abi,
            account=self.account,
            state_dir=self._state_dir,
            cwd=cwd,
            confines=confines,
        )

    def _isolated(self, limits: ExecutionLimits, containment: Containment) -> Isolated:
        return isolated(self._host, limits, self._shares, containment)


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
    story: Story | None,
) -> CommandResult:
    """Put together what is known once nothing of the command is left."""
    cpu_ms = measured.cpu_ms if launched.cpu_us is None else -(-launched.cpu_us // 1000)
    io_bytes = launched.io_bytes if measured.io_bytes is None else measured.io_bytes
    figures = {
        Unit.CPU_MS: cpu_ms,
        Unit.MEMORY_MIB_S: measured.memory_mib_s,
        Unit.IO_BYTES: io_bytes,
        Unit.EGRESS_BYTES: measured.attached.get(Unit.EGRESS_BYTES),
        # What the operator counts no commands with is no part of what one used.
        **{unit: measured.attached.get(unit) for unit in OF_PROBES if unit not in unmeasurable},
    }
    code = launched.exit_code
    signal = -code if code is not None and code < 0 else None
    return CommandResult(
        cause=final_cause(
            cause,
            measured=measured,
            dropped_bytes=captured.dropped_bytes,
            signal=signal,
            attached=attached,
        ),
        exit_code=None if signal else code,
        signal=signal,
        stdout=captured.stdout.kept,
        stderr=captured.stderr.kept,
        stdout_dropped_bytes=captured.stdout.dropped_bytes,
        stderr_dropped_bytes=captured.stderr.dropped_bytes,
        wall_ms=wall_ms,
        cpu_ms=cpu_ms,
        memory_peak_bytes=measured.memory_peak_bytes,
        memory_mib_s=measured.memory_mib_s,
        swap_peak_bytes=measured.swap_peak_bytes,
        io_bytes=io_bytes,
        pids_peak=measured.pids_peak,
        pids_limit_hits=measured.pids_limit_hits,
        pids_refused_by=measured.pids_refused_by,
        memory_high_hits=measured.memory_high_hits,
        victim=measured.victim,
        frozen_ms=measured.frozen_ms,
        isolated=isolated,
        attached=measured.attached,
        notes=tuple(note for one in attached for note in one.notes()),
        refused=tuple(said for one in attached if isinstance(one, Held) for said in one.refused()),
        unmeasured={
            unit: unmeasurable.get(unit) or measured.unknown.get(unit) or why_not_seen(unit)
            for unit, figure in figures.items()
            if figure is None
        },
        unknown=measured.unknown,
        story=story,
        curve=None if measured.curve is None else measured.curve.ended_at(cpu_ms),
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
        async with AsyncExitStack() as last:
            with closing(attached):
                await empty(launched, domain)
                # From here on it is removed, whatever else goes wrong.
                last.push_async_callback(domain.remove)
                if launched is not None:
                    await _drain(attached, 0)
                    told(_measured(domain, pause, attached))
        return
    message = f"{name}: the domain was not gone after {CLEANUP_SECONDS_MAX} s"
    raise DomainError(message)


async def _until_gone(launched: Launched, attached: Sequence[Attachment], cause: EndCause) -> None:
    """Return when nothing is left of a command; what it had on its way goes if it ended itself."""
    await launched.wait_until_gone()
    await _drain(attached, DRAIN_SECONDS_MAX if cause is EndCause.EXITED else 0)


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
