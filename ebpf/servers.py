"""The domains of long-lived servers, which others start and talk to."""

from collections.abc import Sequence
from itertools import count

import anyio
import anyio.to_thread

from ebpf.capability import Host
from ebpf.command import EndCause
from ebpf.domains.domain import Domain, Domains, Measured
from ebpf.domains.observed import ObservedDomain
from ebpf.domains.place import ServerPlace
from ebpf.errors import DomainError
from ebpf.launching import server_argv
from ebpf.promises import shortfall
from governor.limits import UNLIMITED, ExecutionLimits, SharedLimits

# More than killing and removing a domain may take, each with a bound of its own.
CLEANUP_SECONDS_MAX = 20.0


class Servers:
    """Servers by name, each in a domain of its own as long as it lasts."""

    def __init__(self, domains: Domains, host: Host) -> None:
        """Take where domains are made, and what their host can do."""
        self._domains = domains
        self._host = host
        self._servers: dict[str, Domain] = {}
        self._limits: dict[str, ExecutionLimits | None] = {}
        self._starts: dict[str, int] = {}
        self._lives = count(1)

    def shortfall(self, limits: SharedLimits) -> str:
        """Return why a server's limits would not be enforced here; empty where they would."""
        return shortfall(self._host, limits)

    def wrap(
        self, name: str, argv: Sequence[str], limits: SharedLimits = UNLIMITED
    ) -> tuple[str, ...]:
        """Return the command line that starts a server in a domain of its own.

        It keeps the sidecar's user. The same name can be started again until `end`, each time
        by this process and with `started`; it has the limits that it was first started with.

        Raises:
            DomainError: its domain could not be made.
        """
        domain = self._servers.get(name)
        if domain is None:
            held = None if limits == UNLIMITED else _for_good(limits)
            domain = self._servers[name] = self._domains.make(ServerPlace(name=name), held)
            self._limits[name] = held
        return server_argv(argv, domain.entry)

    def started(self, name: str, pid: int) -> None:
        """Take note of the process that a server's command line was started as."""
        self._servers[name].started(pid)
        self._starts[name] = next(self._lives)

    def measure(self, name: str) -> tuple[int, Measured] | None:
        """Return a number that tells this start from others, and what was used since.

        None for one that is unknown or cannot be read.
        """
        domain, life = self._servers.get(name), self._starts.get(name)
        if domain is None or life is None:
            return None
        try:
            return life, domain.measure()
        except DomainError:
            return None  # its groups were removed while they were looked at

    async def over(self, name: str) -> EndCause:
        """Return the limit that a server is over, where the kernel does not end it by itself.

        Where it does, this never returns.

        Raises:
            DomainError: its domain cannot be read.
        """
        domain, limits = self._servers.get(name), self._limits.get(name)
        if limits is None or not isinstance(domain, ObservedDomain):
            await anyio.sleep_forever()
        assert isinstance(domain, ObservedDomain), "the others are the kernel's to end"
        assert limits is not None, "what has no limits is over none"
        return await domain.watch(limits)

    async def processes(self, name: str) -> tuple[int, ...]:
        """Return the ids of all processes of a server; an unknown one has none.

        Raises:
            DomainError: they cannot be read.
        """
        domain = self._servers.get(name)
        # Without control groups every process of the host is looked at.
        return () if domain is None else await anyio.to_thread.run_sync(domain.members)

    async def end(self, name: str) -> None:
        """Kill whatever is left of a server and remove its domain; an unknown one has none.

        A domain that is not gone stays the server's: the next start is in it, the next end ends it.

        Raises:
            DomainError: it could not be emptied or removed.
        """
        domain = self._servers.pop(name, None)
        self._starts.pop(name, None)
        if domain is None:
            return
        is_gone = False
        try:
            with anyio.move_on_after(CLEANUP_SECONDS_MAX, shield=True):
                await domain.kill()
                await domain.remove()
                is_gone = True
        finally:
            if not is_gone:
                self._servers[name] = domain
        if not is_gone:
            message = f"{name}: the domain was not gone after {CLEANUP_SECONDS_MAX} s"
            raise DomainError(message)


def _for_good(limits: SharedLimits) -> ExecutionLimits:
    """Return limits for as long as a server lives: what ends a call has no meaning for it."""
    return ExecutionLimits(
        memory_bytes=limits.memory_bytes,
        pids=limits.pids,
        cpu_millis=limits.cpu_millis,
        cpu_ms=None,
        wall_ms=0,
        output_bytes=0,
    )
