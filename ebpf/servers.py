"""The domains of long-lived servers, which others start and talk to."""

from collections.abc import Sequence

import anyio
import anyio.to_thread

from ebpf.domains.domain import Domain, Domains
from ebpf.domains.place import ServerPlace
from ebpf.errors import DomainError
from ebpf.launching import server_argv

# More than killing and removing a domain may take, each with a bound of its own.
CLEANUP_SECONDS_MAX = 20.0


class Servers:
    """Servers by name, each in a domain of its own as long as it lasts."""

    def __init__(self, domains: Domains) -> None:
        """Take where domains are made."""
        self._domains = domains
        self._servers: dict[str, Domain] = {}

    def wrap(self, name: str, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the command line that starts a server in a domain of its own.

        It has no limits and keeps the sidecar's user. The same name can be started again
        until `end`, each time by this process and with `started`.

        Raises:
            DomainError: its domain could not be made.
        """
        domain = self._servers.get(name)
        if domain is None:
            domain = self._servers[name] = self._domains.make(ServerPlace(name=name), None)
        return server_argv(argv, domain.entry)

    def started(self, name: str, pid: int) -> None:
        """Take note of the process that a server's command line was started as."""
        self._servers[name].started(pid)

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
