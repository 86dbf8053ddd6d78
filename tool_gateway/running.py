"""The calls that run now, so that ending a session can stop them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio

from governor.ids import CallId, SessionId


@dataclass(slots=True, eq=False)
class Running:
    """One call from its admission to its settlement.

    The backend runs inside `scope`, the settlement outside of it: stopping a call never
    keeps it from being settled. `stopped_why` is set when someone other than the client
    ends the call; `is_frozen` while its session is.
    """

    session: SessionId
    scope: anyio.CancelScope
    stopped_why: str | None = None
    is_frozen: bool = False

    def stop(self, why: str) -> None:
        """Cancel the backend's run."""
        self.stopped_why = why
        self.scope.cancel()


class RunningCalls:
    """Every call between admission and settlement in this process."""

    def __init__(self) -> None:
        """Start with none."""
        self._calls: dict[CallId, Running] = {}
        self._emptied = anyio.Event()

    def __len__(self) -> int:
        """Return how many calls run now."""
        return len(self._calls)

    @contextmanager
    def track(self, call_id: CallId, session: SessionId) -> Iterator[Running]:
        """Keep the call in the list while the block runs."""
        running = Running(session=session, scope=anyio.CancelScope())
        self._calls[call_id] = running
        try:
            yield running
        finally:
            del self._calls[call_id]
            if not self._calls:
                self._emptied.set()
                self._emptied = anyio.Event()

    async def all_ended(self) -> None:
        """Wait until no call runs."""
        if self._calls:
            await self._emptied.wait()

    def is_frozen(self, call_id: CallId) -> bool:
        """Tell whether the session of a running call is frozen."""
        running = self._calls.get(call_id)
        return running is not None and running.is_frozen

    def freeze_session(self, session: SessionId) -> list[CallId]:
        """Note that the session is frozen on its running calls, and return which those are."""
        return self._note_frozen(session, is_frozen=True)

    def thaw_session(self, session: SessionId) -> list[CallId]:
        """Note that the session goes on, on its running calls, and return which those are."""
        return self._note_frozen(session, is_frozen=False)

    def _note_frozen(self, session: SessionId, *, is_frozen: bool) -> list[CallId]:
        found = [
            (id_, running) for id_, running in self._calls.items() if running.session == session
        ]
        for _, running in found:
            running.is_frozen = is_frozen
        return [call_id for call_id, _ in found]

    def stop_session(self, session: SessionId, *, why: str) -> int:
        """Stop every call of `session` and return how many there were."""
        return self._stop([r for r in self._calls.values() if r.session == session], why)

    def stop_all(self, *, why: str) -> int:
        """Stop every call and return how many there were."""
        return self._stop(list(self._calls.values()), why)

    def _stop(self, stopped: list[Running], why: str) -> int:
        for running in stopped:
            running.stop(why)
        return len(stopped)
