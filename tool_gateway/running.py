"""The calls that run now, so that ending a session can stop them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio

from governor.call import ToolCall
from governor.ids import CallId, SessionId


@dataclass(slots=True, eq=False)
class Running:
    """One running call; `stopped_why` is set when someone other than the client ends it."""

    session: SessionId
    scope: anyio.CancelScope
    stopped_why: str | None = None


class RunningCalls:
    """Every call between admission and settlement in this process."""

    def __init__(self) -> None:
        """Start with none."""
        self._calls: dict[CallId, Running] = {}

    def __len__(self) -> int:
        """Return how many calls run now."""
        return len(self._calls)

    @contextmanager
    def track(self, call: ToolCall) -> Iterator[Running]:
        """Keep `call` in the list while the block runs, under a scope that can stop it."""
        with anyio.CancelScope() as scope:
            running = Running(session=call.chain.session, scope=scope)
            self._calls[call.call_id] = running
            try:
                yield running
            finally:
                del self._calls[call.call_id]

    def stop_session(self, session: SessionId, *, why: str) -> int:
        """Stop every call of `session` and return how many there were."""
        stopped = [running for running in self._calls.values() if running.session == session]
        for running in stopped:
            running.stopped_why = why
            running.scope.cancel()
        return len(stopped)

    def stop_all(self, *, why: str) -> int:
        """Stop every call and return how many there were."""
        stopped = list(self._calls.values())
        for running in stopped:
            running.stopped_why = why
            running.scope.cancel()
        return len(stopped)
