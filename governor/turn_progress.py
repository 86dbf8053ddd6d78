"""Progress of a session, as far as it shows in what its tools answered.

The signal is simple on purpose, and conservative: a call that succeeded with an answer the session
has not seen is progress, and nothing else is. A failure teaches a model something too, but whoever
collects failures is not on the way to a result. A tool that changes something and always answers
"ok" shows progress once; one that answers with a clock shows progress each time, which is why a
limit on the number of extensions stands beside the signal.
"""

from dataclasses import dataclass, field
from enum import StrEnum

# Three answers in a row that brought nothing new are a loop; two are a retry.
LOOP_LENGTH = 3
# How many answers of a session are remembered: one that comes back after as many others is new.
ANSWERS_MAX = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPrint:
    """A call that ended, by hashes that are equal for equal arguments and equal results."""

    tool: str
    arguments_hash: str
    result_hash: str | None
    is_success: bool

    @property
    def answer(self) -> int | None:
        """Return what tells one successful answer of a tool from another, in little space."""
        if not self.is_success or self.result_hash is None:
            return None
        return hash((self.tool, self.result_hash))


class Answer(StrEnum):
    """What a call brought to its session."""

    NEW = "new"
    SEEN = "seen"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What came of the calls since the last extension."""

    calls: int = 0
    new_results: int = 0
    is_looping: bool = False


@dataclass(slots=True)
class Trail:
    """The answers that a session has seen, and what is new since its last extension."""

    _seen: dict[int, None] = field(default_factory=dict)
    _calls: int = 0
    _new_results: int = 0
    _stale_in_a_row: int = 0

    @property
    def progress(self) -> Progress:
        """Return what came of the calls since the last extension."""
        return Progress(
            calls=self._calls,
            new_results=self._new_results,
            is_looping=self._stale_in_a_row >= LOOP_LENGTH,
        )

    def note(self, printed: CallPrint) -> Answer:
        """Take note of a call that ended and return what it brought."""
        self._calls += 1
        answer = printed.answer
        if answer is None or answer in self._seen:
            self._stale_in_a_row += 1
            return Answer.FAILED if answer is None else Answer.SEEN
        self._seen[answer] = None
        if len(self._seen) > ANSWERS_MAX:
            del self._seen[next(iter(self._seen))]
        self._new_results += 1
        self._stale_in_a_row = 0
        return Answer.NEW

    def restart(self) -> None:
        """Count anew: what was seen before an extension does not earn the next one."""
        self._calls = self._new_results = 0
