"""The domains of agents: programs that a launcher of the same user starts at its own terminal."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import anyio

from ebpf.attachment import Attachment, closing
from ebpf.command import EndCause
from ebpf.containment import Account, Containment
from ebpf.domains.domain import Domain, Entry, Measured
from ebpf.errors import DomainError
from ebpf.launching import agent_argv
from ebpf.pausing import Pause
from ebpf.servers import CLEANUP_SECONDS_MAX
from governor.amounts import Unit
from governor.call import Isolated
from governor.limits import ExecutionLimits

__all__ = ["Agent", "AgentEntry", "agent_argv"]

_AFTER_KILL_SECONDS = 0.1
_SHORT_OF_MEMORY = frozenset(
    {
        EndCause.MEMORY,
        EndCause.SESSION_MEMORY,
        EndCause.TENANT_MEMORY,
        EndCause.HOST_MEMORY,
        EndCause.UNKNOWN,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEntry:
    """How an agent's launcher enters its domain, whom it becomes, and what is kept from it."""

    entry: Entry
    account: Account | None
    containment: Containment


class Agent:
    """One agent's domain, while it runs."""

    def __init__(
        self,
        domain: Domain,
        pause: Pause,
        *,
        inside: AgentEntry,
        isolated: Isolated,
        attached: Sequence[Attachment],
    ) -> None:
        """Take the domain, which is empty so far, and what hangs on it."""
        self._domain = domain
        self._attached = attached
        self.pause = pause
        self.inside = inside
        self.isolated = isolated

    def started(self, pid: int) -> None:
        """Take note of the process that was started into the domain."""
        self._domain.started(pid)

    def measure(self) -> Measured:
        """Return what its processes have used so far.

        Raises:
            EbpfError: it cannot be read.
        """
        counted: dict[Unit, int] = {}
        for one in self._attached:
            counted.update(one.measured())
        frozen_ms = round(self.pause.frozen_seconds * 1000)
        return replace(self._domain.measure(), frozen_ms=frozen_ms, attached=counted)

    async def kill(self) -> None:
        """Kill all that is inside.

        Raises:
            DomainError: some process survived.
        """
        await self._domain.kill()

    async def watch(self, limits: ExecutionLimits, *, told: Callable[[int], None]) -> EndCause:
        """Return the limit that ends the agent, once one is exceeded; else never return.

        Where the kernel has killed one process for the domain's memory the others go on:
        `told` hears how many that were by now.

        Raises:
            EbpfError: the domain cannot be read.
        """
        first: list[EndCause] = []
        async with anyio.create_task_group() as tasks:

            async def when(exceeded: Callable[[], Awaitable[EndCause]]) -> None:
                first.append(await exceeded())
                tasks.cancel_scope.cancel()

            tasks.start_soon(when, lambda: self._over(limits, told))
            for one in self._attached:
                tasks.start_soon(when, one.exceeded)
        return first[0]

    async def _over(self, limits: ExecutionLimits, told: Callable[[int], None]) -> EndCause:
        kills = 0
        while True:
            cause = await self._domain.watch(limits)
            killed = self._domain.measure().memory_kills
            if cause not in _SHORT_OF_MEMORY or not killed:
                return cause
            if killed > kills:
                kills = killed
                told(killed)
            # The count stays what it is, so the domain returns at once from now on.
            await anyio.sleep(_AFTER_KILL_SECONDS)


@asynccontextmanager
async def entered(
    name: str,
    domain: Domain,
    pauses: dict[str, Pause],
    *,
    inside: AgentEntry,
    isolated: Isolated,
    attached: Sequence[Attachment],
) -> AsyncIterator[Agent]:
    """Yield an agent's domain; nothing of it, or of what is `attached`, is left afterwards.

    Raises:
        DomainError: it could not be emptied or removed.
    """
    pause = pauses[name] = Pause(domain)
    is_gone = False
    try:
        yield Agent(domain, pause, inside=inside, isolated=isolated, attached=attached)
    finally:
        del pauses[name]
        with anyio.move_on_after(CLEANUP_SECONDS_MAX, shield=True):
            async with AsyncExitStack() as last:
                with closing(attached):
                    await domain.kill()
                    # From here on it is removed, whatever else goes wrong.
                    last.push_async_callback(domain.remove)
            is_gone = True
    if not is_gone:
        message = f"{name}: the domain was not gone after {CLEANUP_SECONDS_MAX} s"
        raise DomainError(message)
