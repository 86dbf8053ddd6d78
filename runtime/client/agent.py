"""An agent at its sidecar: sessions, budgets, outcomes and memory over one connection."""

from collections.abc import Mapping
from typing import Self

import httpx

from runtime.client.connection import (
    SECONDS_MAX,
    AsyncClosing,
    AsyncConnection,
    Closing,
    Connection,
)
from runtime.client.errors import NotReachedError
from runtime.client.memory import AsyncMemory, Memory
from runtime.client.sessions import AsyncSessions, Sessions


class Flyball(Closing):
    """An agent at its sidecar, for programs that wait.

    `sessions` has budgets and outcomes too, `memory` is the agent's own.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str,
        session: str | None = None,
        timeout_s: float = SECONDS_MAX,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Take the agents' listener, an agent's token, and the session that is charged."""
        self._connection = Connection(
            base_url, token=token, session=session, timeout_s=timeout_s, transport=transport
        )
        self.sessions = Sessions(self._connection)
        self.memory = Memory(self._connection)

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Self:
        """Return the client of an agent that `flyball run` started; give it `os.environ`.

        Raises:
            NotReachedError: it was not started by `flyball run`.
        """
        base_url, token, session = _places_in(environment)
        return cls(base_url, token=token, session=session)


class AsyncFlyball(AsyncClosing):
    """An agent at its sidecar, for programs with a loop; all else is as of `Flyball`."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str,
        session: str | None = None,
        timeout_s: float = SECONDS_MAX,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Take the agents' listener, an agent's token, and the session that is charged."""
        self._connection = AsyncConnection(
            base_url, token=token, session=session, timeout_s=timeout_s, transport=transport
        )
        self.sessions = AsyncSessions(self._connection)
        self.memory = AsyncMemory(self._connection)

    @classmethod
    def of_environment(cls, environment: Mapping[str, str]) -> Self:
        """Return the client of an agent that `flyball run` started; give it `os.environ`.

        Raises:
            NotReachedError: it was not started by `flyball run`.
        """
        base_url, token, session = _places_in(environment)
        return cls(base_url, token=token, session=session)


def _places_in(environment: Mapping[str, str]) -> tuple[str, str, str | None]:
    base_url, token = environment.get("FLYBALL_URL"), environment.get("FLYBALL_TOKEN")
    if not base_url or not token:
        raise NotReachedError(
            "FLYBALL_URL and FLYBALL_TOKEN are not set: start this program with `flyball run -- …`"
        )
    return base_url, token, environment.get("FLYBALL_SESSION")
