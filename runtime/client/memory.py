"""The clients of the memory: one that waits, one for a loop; they say the same."""

import httpx

from runtime.client import memory_requests as requests
from runtime.client.connection import (
    SECONDS_MAX,
    AsyncClosing,
    AsyncConnection,
    Closing,
    Connection,
)
from runtime.client.methods import awaits, awaits_pages, pages, waits


class Memory:
    """An agent's memory, for programs that wait.

    Every method raises `DeniedError` where a budget or rule does not allow it, `RefusedError`
    where the request is wrong or there is no such index, `NotReachedError` where nobody answers.
    """

    def __init__(self, connection: Connection) -> None:
        """Take the sidecar, the token and the session."""
        self._connection = connection

    write = waits(requests.write)
    search = waits(requests.search)
    context = waits(requests.context)
    around = waits(requests.around)
    content = waits(requests.content)
    feedback = waits(requests.feedback)
    forget = waits(requests.forget)
    listed = pages(requests.listed)
    namespaces = pages(requests.namespaces)


class MemoryClient(Closing, Memory):
    """An agent's memory by itself, for programs that wait."""

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
        super().__init__(
            Connection(
                base_url, token=token, session=session, timeout_s=timeout_s, transport=transport
            )
        )


class AsyncMemory:
    """An agent's memory, for programs with a loop; the errors are those of `Memory`."""

    def __init__(self, connection: AsyncConnection) -> None:
        """Take the sidecar, the token and the session."""
        self._connection = connection

    write = awaits(requests.write)
    search = awaits(requests.search)
    context = awaits(requests.context)
    around = awaits(requests.around)
    content = awaits(requests.content)
    feedback = awaits(requests.feedback)
    forget = awaits(requests.forget)
    listed = awaits_pages(requests.listed)
    namespaces = awaits_pages(requests.namespaces)


class AsyncMemoryClient(AsyncClosing, AsyncMemory):
    """An agent's memory by itself, for programs with a loop."""

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
        super().__init__(
            AsyncConnection(
                base_url, token=token, session=session, timeout_s=timeout_s, transport=transport
            )
        )
