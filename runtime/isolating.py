"""Keeping the sessions of local commands from hurting one another, where this host can."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio

from ebpf.capability import Host
from ebpf.domains.hierarchies import UNIFIED
from ebpf.errors import DomainError
from ebpf.executor import LocalExecutor
from ebpf.host_memory import HostMemory
from ebpf.isolation import Isolator
from ebpf.pressure import PRESSURE
from ebpf.pressure_trigger import PressureTrigger
from ebpf.session_group import SessionGroup
from governor.fairness.claim import Priority
from governor.isolation import IsolationControl
from runtime.clock import SystemClock
from runtime.configuration.machine import Local
from runtime.local_commands import RoomFor, always_room

_MIB = 1 << 20
# No id has this sign, so a tenant and a session make one name that no others make.
_BETWEEN = "\0"
_STALL_US = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """Tells sessions apart by one name each, and finds them again."""

    executor: LocalExecutor

    def group_of(self, name: str) -> SessionGroup | None:
        """Return the group of a session."""
        tenant, _, session = name.partition(_BETWEEN)
        return self.executor.session_group(tenant, session)

    def stood(self, session: str, *, is_still: bool) -> None:
        """Have the time limits of a session's commands stand still with it."""
        tenant, _, own = session.partition(_BETWEEN)
        self.executor.stillness.note((tenant, own), is_still=is_still)


def isolator_of(
    local: Local, *, host: Host, executor: LocalExecutor, elapsed_ms: Callable[[], int]
) -> Isolator | None:
    """Return what isolates sessions; None where that is off, or this host has no groups for it."""
    if not local.isolation or host.found is None or UNIFIED not in host.found.hierarchies:
        return None
    bytes_max = None if local.memory_mib is None else local.memory_mib * _MIB
    try:
        memory = HostMemory(host.found.hierarchies, bytes_max=bytes_max)
    except DomainError:
        return None
    names = _Names(executor=executor)
    return Isolator(
        IsolationControl(),
        group_of=names.group_of,
        capacity_of=memory,
        elapsed_ms=elapsed_ms,
        stood=names.stood,
    )


def room_of(isolator: Isolator) -> RoomFor:
    """Return what waits for room for a command of a session, and holds it."""

    def room(
        tenant: str, session: str, priority: Priority, *, expected_bytes: int | None
    ) -> AbstractAsyncContextManager[None]:
        name = f"{tenant}{_BETWEEN}{session}"
        return isolator.call(name, priority, expected_bytes=expected_bytes)

    return room


@asynccontextmanager
async def isolated_room(
    local: Local, host: Host, executor: LocalExecutor, clock: SystemClock
) -> AsyncIterator[RoomFor]:
    """Yield where commands wait for room; without isolation there always is some."""
    isolator = isolator_of(local, host=host, executor=executor, elapsed_ms=clock.elapsed_ms)
    if isolator is None:
        yield always_room
        return
    async with isolating(isolator):
        yield room_of(isolator)


@asynccontextmanager
async def isolating(isolator: Isolator, *, pressure: Path = PRESSURE) -> AsyncIterator[None]:
    """Look after the sessions in this block, at once where the kernel tells of pressure."""
    with ExitStack() as stack:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(isolator.run, name="isolation")
            for name in ("memory", "cpu"):
                try:
                    trigger = PressureTrigger(pressure / name, stall_us=_STALL_US)
                except DomainError:
                    continue  # a kernel that tells of no pressure: looks by the clock alone
                stack.callback(trigger.close)
                tasks.start_soon(isolator.wake_by, trigger, name=f"pressure of {name}")
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
