"""What the gateway needs of the machine for the servers that it starts."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from governor.amounts import Unit


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """What the whole tree of a server may take of the machine; None leaves it unlimited.

    Where they are `required`, a server is not started on a host that cannot enforce them.
    """

    memory_bytes: int | None = None
    pids: int | None = None
    cpu_millis: int | None = None
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerUse:
    """What a server has used since it was started, and the memory that it holds now.

    `life` tells one start from the next: what two say together, only one of the same life can.
    """

    life: int
    totals: Mapping[Unit, int]
    memory_bytes: int | None


class ServerPlacement(Protocol):
    """Puts a long-lived stdio server into a domain, so that its whole tree can be ended."""

    @property
    def server_unmeasurable(self) -> Mapping[Unit, str]:
        """Return what this host cannot measure of a server, each with the reason."""
        ...

    def wrap_server(
        self, name: str, argv: Sequence[str], limits: ServerLimits | None = None
    ) -> tuple[str, ...]:
        """Return the command that starts the server inside its domain; it ends with us.

        Raises:
            UpstreamNotReachedError: limits that are required cannot be enforced here.
        """
        ...

    def server_use(self, name: str) -> ServerUse | None:
        """Return what a server has used, None where nobody can say."""
        ...

    def server_killed_by(self, name: str) -> str:
        """Return in words which of its limits has killed a server, empty if none has."""
        ...

    def server_refused(self, name: str) -> str:
        """Return in words how often a limit kept a server from starting processes, if it did."""
        ...

    async def server_over(self, name: str) -> str:
        """Return in words which limit a server is over that nobody but us will end.

        Where the kernel does, this never returns.
        """
        ...

    def server_started(self, name: str, pid: int) -> None:
        """Take note of the process that the command was started as."""
        ...

    async def server_processes(self, name: str) -> tuple[int, ...]:
        """Return the ids of all processes of the server that live now."""
        ...

    async def end_server(self, name: str) -> None:
        """Kill whatever is left of the server's tree and remove its domain."""
        ...


class PluggedServer(Protocol):
    """A server of tools in this process, in the JSON of MCP."""

    async def tools(self) -> Sequence[Mapping[str, object]]:
        """Return the definitions of the tools that it has."""
        ...

    async def call(self, tool: str, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Return the result of a call; one that failed says so with `isError`."""
        ...


Opening = Callable[[], AbstractAsyncContextManager[PluggedServer]]
