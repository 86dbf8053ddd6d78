"""Counts in the kernel what each domain sends, receives and starts, and stops it at its limit.

The programs are attached once, to the group above all domains of this process; a domain is an
entry in their map. A command costs three accesses to it, however many packets it sends.
"""

import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import anyio

from ebpf.command import EndCause
from ebpf.errors import ProbeError
from ebpf.probe.layout import (
    ONLY,
    Counted,
    Over,
    config_bytes,
    counted_of,
    found_level,
    id_bytes,
    new_domain_bytes,
    question_bytes,
    record_of,
)
from ebpf.probe.maps import Map, Ring
from ebpf.probe.objects import Link, Object
from ebpf.probe.pins import Pins
from ebpf.probe.unsent import unsent_bytes
from ebpf.probe.watched import Watched
from governor.amounts import Unit
from governor.limits import ExecutionLimits

POLL_SECONDS = 0.05
RING_BYTES = 256 * 1024
# Longer than TCP tries to send what nobody waits for any more.
SHUT_SECONDS = 180.0
SHUT_MAX = 1024
# Each costs a descriptor for as long as something of it is shut.
BASES_GONE_MAX = 64
DRAIN_POLL_SECONDS = 0.01
RECORDS_MAX = 256  # of one domain; what is beyond is counted

_PROGRAMS = Path(__file__).parent / "programs"
_KERNEL_TYPES = Path("/sys/kernel/btf/vmlinux")
_EGRESS = "count_egress"
_ON_GROUPS = (
    _EGRESS,
    "count_ingress",
    "count_connect4",
    "count_connect6",
    "count_sendmsg4",
    "count_sendmsg6",
)
_PACKET = bytes(64)  # for programs that do not look at it
_PREFIX = "flyball-"
_GENERATIONS_MAX = 4  # of domains, that the programs look at


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracer:
    """An object file whose programs are attached to the whole machine."""

    name: str
    programs: tuple[str, ...]
    machines: tuple[str, ...] = ()  # where it is written for some only
    after: str = ""  # the tracer whose figures it reads


_OPENS = Tracer(name="opens", programs=("count_open",), machines=("x86_64",), after="processes")
WITHOUT_OPENS = (
    Tracer(name="processes", programs=("count_exec", "count_fork", "count_exit")),
    Tracer(name="victims", programs=("count_victim",)),
)
TRACERS = (*WITHOUT_OPENS, _OPENS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shut:
    """A domain that has ended: nothing of it is let out, by the program at that base."""

    base: int | None
    until: float


class Metering:
    """The programs in the kernel, and the domains that they count."""

    def __init__(
        self,
        *,
        pins: Pins | None = None,
        tracers: tuple[Tracer, ...] = TRACERS,
        has_free_loopback: bool = False,
        records_max: int = RECORDS_MAX,
        ring_bytes: int = RING_BYTES,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """Load the programs; `pins` is where they are kept from going with this process.

        A domain causes `records_max` records at the most; the ring of all domains, a power of two
        and whole pages, is read every `poll_seconds` while a command runs.

        What goes to this machine's loopback device is egress too unless `has_free_loopback`: a
        proxy that listens there would be a way around every limit.

        Raises:
            ProbeError: what counts packets cannot be loaded.
        """
        self._pins = pins
        self._has_free_loopback = has_free_loopback
        self._records_max = records_max
        self.poll_seconds = poll_seconds
        self._network = Object(_PROGRAMS / "metering.bpf.o", entries={"records": ring_bytes})
        self._config = self._network.map("config")
        self._domains = self._network.map("domains")
        self._question = self._network.map("question")
        self._watched: dict[int, Watched] = {}
        self._ring = Ring(self._network.library, self._network.map("records"), self._hear)
        self._base: int | None = None
        self._links: dict[str, Link] = {}
        # What holds back what is on its way from bases that are gone, by their ids.
        self._retired: dict[int, Link] = {}
        self._shut: dict[int, _Shut] = {}
        self._tracers: list[tuple[Object, list[Link]]] = []
        # What could not be attached to the machine, by the tracer's name, and why.
        self.missing: dict[str, str] = {}
        for tracer in tracers:
            if tracer.after in self.missing:
                self.missing[tracer.name] = self.missing[tracer.after]
                continue
            try:
                self._trace(tracer)
            except ProbeError as error:
                self.missing[tracer.name] = str(error)

    @property
    def measures(self) -> frozenset[Unit]:
        """Return the one unit that is counted of every command."""
        return frozenset({Unit.EGRESS_BYTES})

    def attach(self, name: str, group: Path, limits: ExecutionLimits) -> "MeteredDomain":
        """Return the counters of a domain from now on; past its limit nothing leaves it.

        Raises:
            ProbeError: the kernel refused, or too many domains are counted already.
        """
        self._bury()
        try:
            group_id = group.stat().st_ino
            base = _base_of(group)
            if len(group.relative_to(base).parts) > _GENERATIONS_MAX:
                message = f"{name}: its control group is too deep for the programs"
                raise ProbeError(message)
            self._hold(base)
        except OSError as error:
            message = f"{name}: its control group cannot be read"
            raise ProbeError(message) from error
        self._domains.put(
            id_bytes(group_id),
            new_domain_bytes(egress_bytes_max=limits.egress_bytes, records_max=self._records_max),
        )
        self._watched[group_id] = Watched()
        return MeteredDomain(self, group_id)

    def counted(self, group_id: int) -> Counted:
        """Return what has been counted of a domain.

        Raises:
            ProbeError: it is not one of those that are counted.
        """
        value = self._domains.get(id_bytes(group_id))
        if value is None:
            message = f"group {group_id} is not counted"
            raise ProbeError(message)
        return counted_of(value)

    def watched(self, group_id: int) -> Watched:
        """Return what was heard of a domain, up to now."""
        self._ring.consume()
        return self._watched[group_id]

    def shut(self, group_id: int) -> None:
        """Let nothing out of a domain any more; what was counted of it stays as it is.

        Raises:
            ProbeError: the kernel refused.
        """
        self._question.put(ONLY, question_bytes(group_id))
        self._network.test_run("shut_domain", _PACKET)

    def forget(self, group_id: int, *, unsent: int | None) -> None:
        """Tell of a domain no longer.

        While the kernel may have something `unsent` of it, which is what None says too, its entry
        stays and lets nothing out: without one it would be nobody's, and free.
        """
        self._watched.pop(group_id, None)
        if unsent == 0:
            self._domains.remove(id_bytes(group_id))
        else:
            self.shut(group_id)
            until = anyio.current_time() + SHUT_SECONDS
            self._shut[group_id] = _Shut(base=self._base, until=until)

    def _bury(self) -> None:
        """Remove the entries of domains of which nothing can be on its way any more."""
        if not self._shut:
            return
        now = anyio.current_time()
        over = len(self._shut) - SHUT_MAX
        for index, (group_id, shut) in enumerate(list(self._shut.items())):
            if shut.until <= now or index < over:
                del self._shut[group_id]
                self._domains.remove(id_bytes(group_id))
        needed = {shut.base for shut in self._shut.values()}
        for base in self._retired.keys() - needed:
            self._retired.pop(base).close()

    def close(self) -> None:
        """Take every program out of the kernel."""
        self._let_go()
        _close(self._retired.values())
        self._retired.clear()
        for tracer, links in self._tracers:
            _close(links)
            tracer.close()
        self._tracers.clear()
        self._ring.close()
        self._network.close()

    def _hear(self, value: bytes) -> None:
        record = record_of(value)
        watched = self._watched.get(record.domain)
        if watched is not None:  # else it has ended, and this was on its way
            watched.hear(record)

    def _trace(self, tracer: Tracer) -> None:
        if tracer.machines and platform.machine() not in tracer.machines:
            message = f"it is written for {', '.join(tracer.machines)} only"
            raise ProbeError(message)
        shared: Mapping[str, Map] = {
            name: self._network.map(name) for name in ("config", "domains", "records")
        }
        if not _KERNEL_TYPES.exists():
            message = f"this kernel carries no information on its types ({_KERNEL_TYPES})"
            raise ProbeError(message)
        loaded = Object(_PROGRAMS / f"{tracer.name}.bpf.o", shared=shared)
        links: list[Link] = []
        try:
            links.extend(loaded.attach(program) for program in tracer.programs)
        except ProbeError:
            _close(links)
            loaded.close()
            raise
        self._tracers.append((loaded, links))

    def _hold(self, base: Path) -> None:
        """Attach the programs to the group above all domains, unless they are."""
        base_id = base.stat().st_ino
        if base_id == self._base:
            return
        self._let_go()
        level = self._level_of(base) + 1
        self._config.put(
            ONLY, config_bytes(first_level=level, has_free_loopback=self._has_free_loopback)
        )
        try:
            for program in _ON_GROUPS:
                link = self._network.attach_group(program, base)
                self._links[program] = link
                if self._pins is not None:
                    link.pin(self._pins.path(program))
        except (ProbeError, OSError) as error:
            self._let_go()
            if isinstance(error, OSError):
                message = "a program cannot be pinned"
                raise ProbeError(message) from error
            raise
        self._base = base_id

    def _let_go(self) -> None:
        base, self._base = self._base, None
        # The program at a group that is gone still holds what is on its way from there.
        if base is not None and any(shut.base == base for shut in self._shut.values()):
            self._retired[base] = self._links.pop(_EGRESS)
        _close(self._links.values())
        self._links.clear()
        if len(self._retired) > BASES_GONE_MAX:
            self._retired.pop(next(iter(self._retired))).close()
        if self._pins is not None:
            self._pins.clear()

    def _level_of(self, base: Path) -> int:
        """Return how deep below the root a group is, by the kernel's own counting."""
        for up, place in enumerate((base, *base.parents)):
            self._question.put(ONLY, question_bytes(place.stat().st_ino))
            self._network.test_run("find_level", _PACKET)
            level = found_level(self._question.get(ONLY) or b"")
            if level is not None:
                return level + up
        message = f"{base} is not beneath a group that this process is in"
        raise ProbeError(message)


class MeteredDomain:
    """The counters of one domain."""

    def __init__(self, metering: Metering, group_id: int) -> None:
        """Stand for a domain that is counted."""
        self._metering = metering
        self._group_id = group_id
        self._is_drained = False
        self._unsent: int | None = None

    @property
    def counted(self) -> Counted:
        """Return all that has been counted.

        Raises:
            ProbeError: the kernel refused.
        """
        return self._metering.counted(self._group_id)

    @property
    def watched(self) -> Watched:
        """Return what was heard of it."""
        return self._metering.watched(self._group_id)

    def measured(self) -> Mapping[Unit, int]:
        """Return how much was let out of the domain."""
        return {Unit.EGRESS_BYTES: self.counted.egress_bytes}

    async def exceeded(self) -> EndCause:
        """Return EGRESS after the first packet that was not let out; drain the ring meanwhile."""
        while True:
            self._metering.watched(self._group_id)
            cause = self.ended_by()
            if cause is not None:
                return cause
            await anyio.sleep(self._metering.poll_seconds)

    def ended_by(self) -> EndCause | None:
        """Return EGRESS if a packet was not let out."""
        return None if self.counted.over is Over.NONE else EndCause.EGRESS

    def notes(self) -> tuple[str, ...]:
        """Return whom it connected to, whom the kernel killed in it, and what was not heard."""
        return self.watched.notes(self.counted)

    async def drain(self, *, seconds_max: float) -> None:
        """Wait until TCP has sent what was left to it, at most so long; then shut the domain."""
        if self._is_drained:
            return
        if not self.counted.egress_packets:
            self._is_drained, self._unsent = True, 0
            return
        until = anyio.current_time() + seconds_max
        # Where nobody knows how much is unsent, nobody waits for it.
        while unsent_bytes(self._group_id) and self.ended_by() is None:
            if anyio.current_time() >= until:
                break
            await anyio.sleep(DRAIN_POLL_SECONDS)
        # Only now: whoever gives up waiting calls again, and has it shut at once.
        self._metering.shut(self._group_id)
        # What was refused is tried again, and a list of sockets that change misses some of them.
        is_refused = self.ended_by() is not None
        self._is_drained = True
        self._unsent = None if is_refused else unsent_bytes(self._group_id)

    def close(self) -> None:
        """Count it no longer, and let nothing out of it that was on its way."""
        is_silent = not self._is_drained and not self.counted.egress_packets
        self._metering.forget(self._group_id, unsent=0 if is_silent else self._unsent)


def _close(links: Iterable[Link]) -> None:
    for link in links:
        link.close()


def _base_of(group: Path) -> Path:
    """Return the topmost group above a domain that is this process's by its name.

    Groups around it may be named alike: a unit or a slice of systemd, another sidecar's domain.
    """
    ours = [
        place
        for place in group.parents
        if place.name.startswith(_PREFIX) and place.name.endswith(f"-{os.getpid()}")
    ]
    return ours[-1] if ours else group.parent
