"""What is answered about sessions and what they may still use, as values."""

from typing import Literal

from runtime.client.answers import Answer

Source = Literal["tests", "user", "judge", "tool", "task"]


class Balance(Answer):
    """How one unit of one budget stands; `remaining` is negative after an overrun.

    `resets_at_ms` is None where it never does. A rate has `every_ms` and `burst`.
    """

    budget_id: str
    scope: str
    unit: str
    limit: int
    used: int
    reserved: int
    remaining: int
    starts_at_ms: int | None = None
    resets_at_ms: int | None = None
    every_ms: int | None = None
    burst: int | None = None


class Session(Answer):
    """One run of an agent; `balances` are all budgets that its calls are charged to.

    `limits` is what it was carved out with, None of one that was not spawned.
    """

    id: str
    name: str
    parent: str | None = None
    limits: dict[str, int] | None = None
    opened_at_ms: int | None = None
    closed_at_ms: int | None = None
    frozen_at_ms: int | None = None
    balances: tuple[Balance, ...] = ()

    def left(self, unit: str) -> int | None:
        """Return how much of a unit is left in the tightest budget, None without a limit."""
        return min((one.remaining for one in self.balances if one.unit == unit), default=None)


class Scope(Answer):
    """One link of the chain that a session's calls are charged to."""

    kind: str
    subject: str


class Spawned(Answer):
    """A sub-session with an allowance of its own; `chain` begins with the tenant."""

    id: str
    name: str
    limits: dict[str, int]
    chain: tuple[Scope, ...]


class Closed(Session):
    """A session that was closed, and what went back to the one above it."""

    given_back: dict[str, int]


class TaskSaid(Answer):
    """What a session is for was taken down."""

    session: str
    agent: str
    task_class: str | None = None


class SessionOutcome(Answer):
    """How a session went; None where it named no turns."""

    session: str
    success: bool | None
    turns_used: int | None = None


class CallOutcome(Answer):
    """What one answer was worth, from 0 to 1."""

    call_id: str
    score: float
    source: Source
