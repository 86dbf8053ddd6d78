"""The calls that are under way, so that ending a session can stop them."""

from dataclasses import dataclass
from types import TracebackType

import anyio

from governor.ids import CallId, ReservationId, SessionId


@dataclass(slots=True, eq=False)
class Running:
    """One call from its first wait, for a person or for a slot, to its settlement.

    What may be cut off runs inside `stoppable`, the settlement outside of it: stopping a call
    never keeps it from being settled. `stopped_why` is set when someone other than the client
    ends the call; `is_frozen` while its session is.
    """

    call_id: CallId
    session: SessionId
    stopped_why: str | None = None
    is_frozen: bool = False
    reservation_id: ReservationId | None = None
    scope: anyio.CancelScope | None = None

    def stop(self, why: str) -> None:
        """Cancel what is stoppable of the call, now and from now on."""
        self.stopped_why = why
        if self.scope is not None:
            self.scope.cancel()

    def stoppable(self) -> "Stoppable":
        """Have the block cancelled by `stop`, also by one that came before it."""
        return Stoppable(self)

    def runs_on(self, call_id: CallId, reservation_id: ReservationId) -> None:
        """Note the hold that the call runs on, or is about to ask for; it goes by its call's id."""
        self.call_id, self.reservation_id = call_id, reservation_id


class Stoppable:
    """The part of a call that may be cut off; a generator would cost every call more than this."""

    __slots__ = ("_running", "_scope")

    def __init__(self, running: Running) -> None:
        """Take the call."""
        self._running = running
        self._scope = anyio.CancelScope()

    def __enter__(self) -> anyio.CancelScope:
        """Let the call be stopped from now on."""
        scope = self._scope.__enter__()
        self._running.scope = scope
        if self._running.stopped_why is not None:
            scope.cancel()
        return scope

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Let it be stopped no more; its own cancellation ends here."""
        self._running.scope = None
        return self._scope.__exit__(kind, error, trace)


class Tracking:
    """The time that a call is in the list of those under way, as a `with` block."""

    __slots__ = ("_calls", "_running")

    def __init__(self, calls: "RunningCalls", running: Running) -> None:
        """Take the list and the call."""
        self._calls = calls
        self._running = running

    def __enter__(self) -> Running:
        """Begin."""
        self._calls.begin(self._running)
        return self._running

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End, however the block did."""
        self._calls.end(self._running)


class RunningCalls:
    """Every call of this process that waits for a person or a slot, or runs and is not settled."""

    def __init__(self) -> None:
        """Start with none."""
        # In their order, and not by id: a call may run by the id of one that still waits.
        self._calls: dict[Running, None] = {}
        self._frozen: set[SessionId] = set()
        self._emptied: anyio.Event | None = None

    def __len__(self) -> int:
        """Return how many calls are under way."""
        return len(self._calls)

    @property
    def sessions(self) -> frozenset[SessionId]:
        """Return the sessions of the calls that are under way."""
        return frozenset(running.session for running in self._calls)

    def track(self, call_id: CallId, session: SessionId) -> "Tracking":
        """Keep the call in the list while the block runs."""
        return Tracking(self, Running(call_id=call_id, session=session))

    def begin(self, running: Running) -> None:
        """Take a call into the list, which `end` must follow."""
        self._calls[running] = None

    def end(self, running: Running) -> None:
        """Take a call out of the list."""
        del self._calls[running]
        if running.is_frozen and running.session not in self.sessions:
            self._frozen.discard(running.session)
        if not self._calls and self._emptied is not None:
            self._emptied.set()
            self._emptied = None

    async def all_ended(self) -> None:
        """Wait until no call runs."""
        if self._calls:
            self._emptied = self._emptied or anyio.Event()
            await self._emptied.wait()

    def is_running_on(self, reservation_id: ReservationId) -> bool:
        """Tell whether a call of this process runs on that hold and is not settled."""
        return any(running.reservation_id == reservation_id for running in self._calls)

    def is_frozen(self, call_id: CallId) -> bool:
        """Tell whether the session of a running call is frozen."""
        return any(running.is_frozen for running in self._calls if running.call_id == call_id)

    def is_session_frozen(self, session: SessionId) -> bool:
        """Tell whether a session with running calls is frozen."""
        return session in self._frozen

    def freeze_session(self, session: SessionId) -> list[CallId]:
        """Note that the session is frozen on its running calls, and return which those are."""
        return self._note_frozen(session, is_frozen=True)

    def thaw_session(self, session: SessionId) -> list[CallId]:
        """Note that the session goes on, on its running calls, and return which those are."""
        return self._note_frozen(session, is_frozen=False)

    def _note_frozen(self, session: SessionId, *, is_frozen: bool) -> list[CallId]:
        found = [running for running in self._calls if running.session == session]
        for running in found:
            running.is_frozen = is_frozen
        if is_frozen and found:
            self._frozen.add(session)
        else:
            self._frozen.discard(session)
        return [running.call_id for running in found]

    def stop_session(self, session: SessionId, *, why: str) -> int:
        """Stop every call of `session` and return how many there were."""
        return self._stop([r for r in self._calls if r.session == session], why)

    def stop_all(self, *, why: str) -> int:
        """Stop every call and return how many there were."""
        return self._stop(list(self._calls), why)

    def _stop(self, stopped: list[Running], why: str) -> int:
        for running in stopped:
            running.stop(why)
        return len(stopped)
