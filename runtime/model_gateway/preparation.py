"""What the gateway needs of whoever makes a request ready for the tier that was chosen."""

from dataclasses import dataclass
from typing import Protocol

from governor.effort import AnswerMode
from governor.ids import CallId, TaskClass
from governor.tiers import ModelTier
from runtime.model_gateway.model_request import ModelRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request as its tier is to serve it, with the class that its output counts to.

    `effort` is what it was told to take, relative to the usual. `examples` is how many were put
    into it, None where there was no question of any.
    """

    request: ModelRequest
    query_class: str = ""
    why: str = ""
    effort: float = 1.0
    examples: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preparing:
    """What is wished of a request: by its client or its router, before the tier's own.

    A question that `is_aside` is one of Flyball's own, such as to a judge: it is asked as it
    stands.
    """

    mode: AnswerMode | None = None
    effort: float | None = None
    task_class: TaskClass | None = None
    is_aside: bool = False


class Preparer(Protocol):
    """Whoever writes into a request what its tier and its client want of it."""

    def prepare(self, request: ModelRequest, tier: ModelTier, wanted: Preparing) -> Prepared:
        """Return the request for one tier, with an effort that fits the tier's own output."""
        ...

    def ended(self, prepared: Prepared, call_id: CallId, *, output_tokens: int | None) -> None:
        """Learn what a call took; never raises."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Linked:
    """A call that is one round of an answer in several.

    `parent` is the first call of the same answer, None for itself. One that `must_be_new` is
    compared with another: an answer that was kept to the same request says nothing.
    """

    why: str
    parent: CallId | None = None
    is_aside: bool = False
    must_be_new: bool = False

    @property
    def words(self) -> str:
        """Return what the record says of it."""
        return self.why if self.parent is None else f"{self.why}, of {self.parent}"
