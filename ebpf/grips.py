"""How the memory of one domain is looked at and held, on each kind of host."""

from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread
import psutil

from ebpf.domains.domain import Domain
from ebpf.domains.groups import read, read_field, write
from governor.ladder import Look

_MIB = 1024 * 1024
# A process that the kernel keeps waiting for memory cannot be frozen before it has got some. It is
# kept waiting this much below the limit, so that what it then gets is its own.
_ROOM_BYTES_MAX = 4 * _MIB
_ROOM_PARTS = 16


class Grip(Protocol):
    """What the ladder does to the memory of one domain.

    `throttles` says that a command can be held back, `waits` that the kernel keeps it waiting at
    its limit instead of killing it.
    """

    throttles: bool
    waits: bool

    async def look(self, *, limit_bytes: int, high_bytes: int | None) -> Look:
        """Return what is to be seen now.

        Raises:
            DomainError: nothing can be read.
        """

    def hold(self, *, limit_bytes: int, high_bytes: int | None, can_wait: bool) -> None:
        """Have a command held back from `high_bytes` on; where it `can_wait`, at its limit too.

        Raises:
            DomainError: the kernel refused.
        """

    def make_room(self, *, limit_bytes: int) -> None:
        """Let what waits for memory get as far as the freezer.

        Raises:
            DomainError: the kernel refused.
        """

    def let_go(self, *, limit_bytes: int) -> None:
        """Leave the command to its hard limit alone.

        Raises:
            DomainError: the kernel refused.
        """


def grip_of(domain: Domain) -> Grip:
    """Return the grip on a domain, by what its memory controller can do."""
    memory = domain.memory
    if memory is None:
        return SampledGrip(domain)
    if (memory / "memory.high").exists():
        return ThrottlingGrip(memory)
    return WaitingGrip(memory)


class WaitingGrip:
    """Version 1: it cannot hold back, but keep waiting at the limit whoever needs more."""

    throttles = False
    waits = True

    def __init__(self, memory: Path) -> None:
        """Take the group of the memory controller."""
        self._memory = memory
        self._keeps_waiting = False

    async def look(self, *, limit_bytes: int, high_bytes: int | None) -> Look:
        """Return what the kernel counts."""
        waiting = None
        if self._keeps_waiting:
            waiting = bool(read_field(self._memory / "memory.oom_control", "under_oom"))
        used_bytes = int(read(self._memory / "memory.usage_in_bytes"))
        return Look(
            at_ms=_now_ms(),
            used_bytes=used_bytes - _cached_bytes(self._memory, prefix="total_"),
            limit_bytes=limit_bytes,
            is_out_of_room=waiting,
        )

    def hold(self, *, limit_bytes: int, high_bytes: int | None, can_wait: bool) -> None:
        """Have the kernel keep waiting whoever needs more, just below the limit."""
        if can_wait:
            write(self._memory / "memory.oom_control", "1")
            room = min(_ROOM_BYTES_MAX, limit_bytes // _ROOM_PARTS)
            write(self._memory / "memory.limit_in_bytes", str(limit_bytes - room))
            self._keeps_waiting = True
        else:
            self.let_go(limit_bytes=limit_bytes)

    def make_room(self, *, limit_bytes: int) -> None:
        """Give the rest of the limit."""
        write(self._memory / "memory.limit_in_bytes", str(limit_bytes))

    def let_go(self, *, limit_bytes: int) -> None:
        """Give the rest of the limit, at which the kernel kills again."""
        if self._keeps_waiting:
            self.make_room(limit_bytes=limit_bytes)
            write(self._memory / "memory.oom_control", "0")
            self._keeps_waiting = False


class ThrottlingGrip:
    """Version 2: above `memory.high` the kernel reclaims, and holds back who needs more."""

    throttles = True
    waits = False

    def __init__(self, memory: Path) -> None:
        """Take the group."""
        self._memory = memory

    async def look(self, *, limit_bytes: int, high_bytes: int | None) -> Look:
        """Return what the kernel counts."""
        used_bytes = int(read(self._memory / "memory.current"))
        return Look(
            at_ms=_now_ms(),
            used_bytes=used_bytes - _cached_bytes(self._memory, prefix=""),
            limit_bytes=limit_bytes,
            high_bytes=high_bytes,
            high_events=read_field(self._memory / "memory.events", "high"),
            waited_us=self._waited_us(),
            user_us=read_field(self._memory / "cpu.stat", "user_usec"),
        )

    def _waited_us(self) -> int | None:
        """Return how long all of the group waited for memory; None where the kernel says nothing.

        A kernel without pressure information has no such file, one that has it switched off
        refuses to read it.
        """
        try:
            lines = (self._memory / "memory.pressure").read_text().splitlines()
        except OSError:
            return None
        full = next((line for line in lines if line.startswith("full ")), "")
        _, found, total = full.partition("total=")
        return int(total) if found else None

    def hold(self, *, limit_bytes: int, high_bytes: int | None, can_wait: bool) -> None:
        """Set the throttle point."""
        write(self._memory / "memory.high", "max" if high_bytes is None else str(high_bytes))

    def make_room(self, *, limit_bytes: int) -> None:
        """Do nothing: what is held back can be frozen."""

    def let_go(self, *, limit_bytes: int) -> None:
        """Take the throttle point away."""
        write(self._memory / "memory.high", "max")


class SampledGrip:
    """No control groups: the resident memory of all members is added up, now and again."""

    throttles = False
    waits = False

    def __init__(self, domain: Domain) -> None:
        """Take the domain, which knows its members."""
        self._domain = domain

    async def look(self, *, limit_bytes: int, high_bytes: int | None) -> Look:
        """Return the sum of what the members have resident; what they share counts each time."""
        used_bytes = await anyio.to_thread.run_sync(self._resident_bytes)
        return Look(at_ms=_now_ms(), used_bytes=used_bytes, limit_bytes=limit_bytes)

    def _resident_bytes(self) -> int:
        return sum(rss for _, _, rss in resident(self._domain.members()))

    def hold(self, *, limit_bytes: int, high_bytes: int | None, can_wait: bool) -> None:
        """Do nothing: there is no such hold here."""

    def make_room(self, *, limit_bytes: int) -> None:
        """Do nothing: nothing waits."""

    def let_go(self, *, limit_bytes: int) -> None:
        """Do nothing: nothing is held."""


def resident(pids: tuple[int, ...]) -> list[tuple[int, str, int]]:
    """Return the id, the name and the resident bytes of each process that still lives."""
    found = []
    for pid in pids:
        try:
            process = psutil.Process(pid)
            with process.oneshot():
                found.append((pid, process.name(), process.memory_info().rss))
        except psutil.Error:
            continue  # it has ended since
    return found


def _cached_bytes(memory: Path, *, prefix: str) -> int:
    """Return what the kernel takes back for the asking: files, not what lives in memory only."""
    wanted = {f"{prefix}inactive_file", f"{prefix}active_file"}
    lines = (line.split() for line in read(memory / "memory.stat").splitlines())
    return sum(int(value) for key, value in lines if key in wanted)


def _now_ms() -> int:
    return round(anyio.current_time() * 1000)
