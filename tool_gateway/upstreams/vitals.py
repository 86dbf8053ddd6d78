"""What is known of an upstream's life: since when it runs, how often it was started, its ends."""

from dataclasses import dataclass, field
from enum import StrEnum

import anyio

from tool_gateway.telemetry import count_upstream_end
from tool_gateway.upstreams.stderr import StderrRing


class EndCause(StrEnum):
    """What ended a connection or a server."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    LOST = "lost"  # the connection, and nothing is known of a process
    LINE_TOO_LONG = "line_too_long"
    UNHEALTHY = "unhealthy"
    MEMORY = "memory"  # for want of which the kernel killed it
    LIMIT = "limit"  # of its table, which it was over
    IDLE = "idle"
    START_FAILED = "start_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How an upstream ended last; `at` is a reading of the event loop's clock, in seconds."""

    cause: EndCause
    why: str
    at: float
    exit_code: int | None = None
    signal: int | None = None


@dataclass(slots=True, kw_only=True)
class Vitals:
    """Written by whoever keeps an upstream alive, read by whoever shows how it is."""

    name: str
    stderr: StderrRing = field(default_factory=StderrRing)
    pid: int | None = None
    started_at: float | None = None
    starts: int = 0
    failed_checks: int = 0
    answered_at: float | None = None
    last_end: Ending | None = None
    suspected: anyio.Event = field(default_factory=anyio.Event)
    _why: tuple[EndCause, str] | None = None
    _return_code: int | None = None

    @property
    def restarts(self) -> int:
        """Return how often it was started anew, for whatever cause."""
        return max(0, self.starts - 1)

    @property
    def why(self) -> str:
        """Return why its present life is about to end, if somebody of ours ends it."""
        return "" if self._why is None else self._why[1]

    @property
    def lived_s(self) -> float | None:
        """Return how long it has served by now, None if it does not."""
        return None if self.started_at is None else anyio.current_time() - self.started_at

    def begin(self) -> None:
        """Note that it is about to be started, or connected."""
        self._why = self._return_code = None
        self.failed_checks = 0
        self.stderr.begin()

    def started(self, pid: int) -> None:
        """Note the process that was started for it."""
        self.pid = pid

    def ready(self) -> None:
        """Note that it serves from now on."""
        self.starts += 1
        self.started_at = self.answered_at = anyio.current_time()

    def answered(self) -> None:
        """Note that it has answered something: it does not hang."""
        self.failed_checks, self.answered_at = 0, anyio.current_time()

    def unanswered(self) -> None:
        """Note that it has left something unanswered, a health check or a call."""
        self.failed_checks += 1
        self.suspected.set()
        self.suspected = anyio.Event()

    def blame(self, cause: EndCause, why: str) -> None:
        """Note what ends it, before it ends; the first cause stands."""
        self._why = self._why or (cause, why)

    def exited(self, return_code: int | None) -> None:
        """Note how its process ended; a negative code is a signal."""
        self._return_code = return_code
        self.pid = None

    def end(self, *, otherwise: str) -> str:
        """Note that it has ended; return why, which is `otherwise` where nobody knows better."""
        was_ready, code = self.started_at is not None, self._return_code
        by_signal = code is not None and code < 0
        if self._why is not None:
            cause, why = self._why
        elif not was_ready:
            cause, why = EndCause.START_FAILED, otherwise
        elif code is None:
            cause, why = EndCause.LOST, otherwise
        else:
            cause = EndCause.SIGNALLED if by_signal else EndCause.EXITED
            why = f"it was ended by signal {-code}" if by_signal else f"it exited with code {code}"
        self.last_end = Ending(
            cause=cause,
            why=why,
            at=anyio.current_time(),
            exit_code=None if by_signal else code,
            signal=-code if code is not None and by_signal else None,
        )
        self.stderr.end()
        self.started_at = None
        count_upstream_end(upstream=self.name, cause=cause.value)
        return why
