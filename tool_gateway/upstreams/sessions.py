"""An upstream's connections that belong to one session each: opened at need, closed when idle."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

import anyio
from anyio.abc import TaskGroup

from governor.ids import SessionId
from tool_gateway.bearer import Bearer
from tool_gateway.changes import Change
from tool_gateway.errors import UpstreamNotReachedError
from tool_gateway.server_ports import ServerPlacement
from tool_gateway.upstreams.connection import UpstreamConnection
from tool_gateway.upstreams.oauth.credentials import Credentials
from tool_gateway.upstreams.opening import Era
from tool_gateway.upstreams.spec import UpstreamSpec
from tool_gateway.upstreams.standing import UpstreamState

# How long one rests before it is closed, where its upstream says nothing else.
IDLE_SECONDS = 600.0
SWEEP_SECONDS_MAX = 30.0


@dataclass(slots=True)
class _Own:
    connection: UpstreamConnection
    era: Era
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    used_at: float = field(default_factory=anyio.current_time)


class SessionConnections:
    """One upstream's connections, each for the calls of one session."""

    def __init__(
        self,
        spec: UpstreamSpec,
        *,
        placement: ServerPlacement,
        publish: Callable[[Change], None],
        placed_as: str,
        credentials: Credentials | None = None,
    ) -> None:
        """Take what to connect to; nothing is started.

        `placed_as` begins the names of the domains of servers that are started.
        """
        self.spec = spec
        self._placed_as = placed_as
        self._credentials = credentials
        self._placement = placement
        self._publish = publish
        self._own: dict[SessionId, _Own] = {}
        self._tasks: TaskGroup | None = None
        self._numbers = count(1)
        self._idle_s = IDLE_SECONDS if spec.idle_ms is None else spec.idle_ms / 1000

    @property
    def connections(self) -> tuple[UpstreamConnection, ...]:
        """Return the connections that there are now."""
        return tuple(own.connection for own in self._own.values())

    def start_in(self, tasks: TaskGroup) -> None:
        """Open connections in `tasks` from now on, and close there those that rest."""
        self._tasks = tasks
        tasks.start_soon(self._close_idle)

    async def connection_of(
        self, session: SessionId, era: Era, *, bearer: Bearer | None = None
    ) -> UpstreamConnection:
        """Return the session's connection, which is opened if it has none.

        A server that turns out not to speak `era` is spoken to in its own. `bearer` is the token
        that the session's agent came with this time: what the connection itself needs goes by it.

        Raises:
            UpstreamNotReachedError: as many sessions as may have a connection have one.
        """
        own = self._own.get(session) or self._opened(session, era)
        own.connection.bearer = bearer
        await own.connection.settled()
        is_refused = own.era is Era.SESSIONS and own.connection.state is UpstreamState.DOWN
        if is_refused and self._own.get(session) is own:
            own.scope.cancel()
            del self._own[session]
            own = self._opened(session, Era.ANY)
            own.connection.bearer = bearer
            await own.connection.settled()
        own.used_at = anyio.current_time()
        return own.connection

    def _opened(self, session: SessionId, era: Era) -> _Own:
        if self._tasks is None or len(self._own) >= self.spec.sessions_max:
            message = (
                f"{self.spec.name}: {self.spec.sessions_max} sessions have a connection already"
            )
            raise UpstreamNotReachedError(message)
        connection = UpstreamConnection(
            self.spec,
            placement=self._placement,
            on_tools=_nothing,
            publish=self._publish,
            # No upstream's name has a dot, so this is none's.
            placed_as=f"{self._placed_as}.{next(self._numbers)}",
            era=era,
            credentials=self._credentials,
        )
        own = self._own[session] = _Own(connection, era)
        self._tasks.start_soon(self._run, session, own)
        return own

    async def _run(self, session: SessionId, own: _Own) -> None:
        try:
            with own.scope:
                await own.connection.run()
        finally:
            if self._own.get(session) is own:
                del self._own[session]

    async def _close_idle(self) -> None:
        while True:
            await anyio.sleep(min(SWEEP_SECONDS_MAX, self._idle_s / 2))
            for own in list(self._own.values()):
                rests_s = anyio.current_time() - own.used_at
                if rests_s > self._idle_s and not own.connection.is_busy:
                    own.scope.cancel()


def _nothing() -> None:
    """Do nothing: the shared connection tells what the upstream offers."""
