"""A second connection to a server of both eras, for clients of the era with sessions.

What a server may do depends on the era that it is spoken to in: ask in the middle of a call,
for one. Where it speaks both, each client gets the one that it speaks itself.
"""

from collections.abc import Callable

import anyio
from anyio.abc import TaskGroup

from tool_gateway.upstreams.connection import UpstreamConnection
from tool_gateway.upstreams.standing import UpstreamState

# A server that refused the older era is asked again after this long.
REFUSED_SECONDS = 300.0


class Twin:
    """Opened when the first client of the older era comes; given up where it is refused."""

    def __init__(self, make: Callable[[], UpstreamConnection]) -> None:
        """Take how the connection is made; nothing is started."""
        self._make = make
        self._tasks: TaskGroup | None = None
        self._connection: UpstreamConnection | None = None
        self._refused_until = 0.0

    def start_in(self, tasks: TaskGroup) -> None:
        """Open the connection in `tasks` from now on."""
        self._tasks = tasks

    async def connection(self) -> UpstreamConnection | None:
        """Return the connection, None if the server does not speak the older era."""
        if self._tasks is None or anyio.current_time() < self._refused_until:
            return None
        if self._connection is None:
            self._connection = self._make()
            self._tasks.start_soon(self._run, self._connection)
        made = self._connection
        await made.settled()
        return made if made.state is not UpstreamState.DOWN else None

    async def _run(self, connection: UpstreamConnection) -> None:
        """Keep the connection until it is refused: then the other era is bridged."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(connection.run)
            await connection.settled()
            if connection.state is not UpstreamState.DOWN:
                await anyio.sleep_forever()
            tasks.cancel_scope.cancel()
        self._refused_until = anyio.current_time() + REFUSED_SECONDS
        self._connection = None
