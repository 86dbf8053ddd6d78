"""The clients of the era with sessions: told what changed, remembered until they go."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
from anyio.abc import TaskGroup
from mcp.server.connection import Connection

from tool_gateway.changes import Change, ChangeKind, Changes
from tool_gateway.relaying import Relaying

WATCHED_PER_SESSION_MAX = 256


@dataclass(eq=False, slots=True)
class ClientSession:
    """One session, with the resources that it watches and what it was not told yet."""

    connection: Connection
    watched: set[str] = field(default_factory=set)
    pending: dict[Change, None] = field(default_factory=dict)
    is_being_told: bool = False


class ClientSessions:
    """Every open session of the fronts."""

    def __init__(self, relaying: Relaying) -> None:
        """Start with none; `told` must be entered before the first opens."""
        self._relaying = relaying
        self._sessions: dict[Connection, ClientSession] = {}
        self._tasks: TaskGroup | None = None

    @asynccontextmanager
    async def told(self, changes: Changes) -> AsyncIterator[None]:
        """Tell each session what changes while the block runs."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            with changes.heard_by(self._hear):
                try:
                    yield
                finally:
                    tasks.cancel_scope.cancel()

    def remember(self, connection: Connection) -> None:
        """Tell a connection what changes, until it is closed."""
        if connection not in self._sessions:
            self._sessions[connection] = ClientSession(connection)
            connection.exit_stack.push_async_callback(self._forget, connection)

    def of(self, connection: Connection) -> ClientSession:
        """Return the session of a connection that was remembered."""
        return self._sessions[connection]

    async def _forget(self, connection: Connection) -> None:
        session = self._sessions.pop(connection)
        for uri in session.watched:
            await self._relaying.unwatch(uri)

    def _hear(self, change: Change) -> None:
        assert self._tasks is not None, "`told` was entered"
        for session in self._sessions.values():
            if change.kind is ChangeKind.UPDATED and change.uri not in session.watched:
                continue
            if not session.connection.initialized.is_set():
                continue
            session.pending[change] = None
            if not session.is_being_told:
                session.is_being_told = True
                self._tasks.start_soon(_tell, session)


async def _tell(session: ClientSession) -> None:
    """Tell a session what is pending; one that does not listen holds up no other."""
    try:
        while session.pending:
            change = next(iter(session.pending))
            del session.pending[change]
            match change.kind:
                case ChangeKind.TOOLS:
                    await session.connection.send_tool_list_changed()
                case ChangeKind.PROMPTS:
                    await session.connection.send_prompt_list_changed()
                case ChangeKind.RESOURCES:
                    await session.connection.send_resource_list_changed()
                case ChangeKind.UPDATED:
                    await session.connection.send_resource_updated(change.uri)
    finally:
        session.is_being_told = False
