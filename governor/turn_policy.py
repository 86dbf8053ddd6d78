"""The policy of turns: which sessions are limited, and how."""

from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase

from governor.errors import InvalidPolicyError
from governor.ids import PrincipalId, TaskClass, TenantId

DEFAULT_CLASS = TaskClass("default")
TURNS_MAX = 100_000
_PERCENT_MAX = 100


class TurnMode(StrEnum):
    """How the turns of a session are limited."""

    UNLIMITED = "unlimited"
    FIXED = "fixed"
    PERCENTILE = "percentile"
    DYNAMIC = "dynamic"


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTerms:
    """What limits a session's turns.

    `turns` is the limit of `fixed`, the base allowance of `dynamic`, and what `percentile` starts
    with until `history_min` sessions of the class have finished. `solve_price` is what a solved
    task is worth in sessions of mean cost; with it, `dynamic` asks the class's history too.

    Raises:
        InvalidPolicyError: a value is out of its range.
    """

    mode: TurnMode = TurnMode.UNLIMITED
    turns: int = 50
    percent: int = 75
    history_min: int = 20
    extension: int = 10
    extensions_max: int = 3
    extended_max: int = 30
    automatic: bool = False
    progress_min: int = 1
    solve_price: float | None = None
    remind_at: tuple[int, ...] = (5, 3, 1)
    note_results: bool = True
    note_chats: bool = True

    def __post_init__(self) -> None:
        """Refuse what cannot be counted to."""
        for name, value, least, most in (
            ("turns", self.turns, 1, TURNS_MAX),
            ("percent", self.percent, 1, _PERCENT_MAX),
            ("history_min", self.history_min, 1, TURNS_MAX),
            ("extension", self.extension, 1, TURNS_MAX),
            ("extensions_max", self.extensions_max, 0, TURNS_MAX),
            ("extended_max", self.extended_max, 0, TURNS_MAX),
            ("progress_min", self.progress_min, 1, TURNS_MAX),
            *(("remind_at", count, 0, TURNS_MAX) for count in self.remind_at),
        ):
            if not least <= value <= most:
                message = f"{name}: {value} is outside {least}..{most}"
                raise InvalidPolicyError(message)
        if self.solve_price is not None and not 0 < self.solve_price < float("inf"):
            message = f"solve_price: {self.solve_price} is not a positive number"
            raise InvalidPolicyError(message)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRule:
    """Terms for the sessions that match; each part is a shell pattern."""

    terms: TurnTerms
    tenant: str = "*"
    agent: str = "*"
    task_class: str = "*"

    def covers(self, *, tenant: TenantId, agent: PrincipalId, task_class: TaskClass) -> bool:
        """Tell whether every part matches."""
        return (
            fnmatchcase(tenant, self.tenant)
            and fnmatchcase(agent, self.agent)
            and fnmatchcase(task_class, self.task_class)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentClass:
    """The task class of agents that name none."""

    agent: str
    task_class: TaskClass


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnPolicy:
    """Rules in order, the first that covers a session governs it; and the agents' classes."""

    rules: tuple[TurnRule, ...] = ()
    fallback: TurnTerms = TurnTerms()
    classes: tuple[AgentClass, ...] = ()

    def terms_for(
        self, *, tenant: TenantId, agent: PrincipalId, task_class: TaskClass
    ) -> TurnTerms:
        """Return the terms that govern a session."""
        for rule in self.rules:
            if rule.covers(tenant=tenant, agent=agent, task_class=task_class):
                return rule.terms
        return self.fallback

    def class_of(self, agent: PrincipalId, *, asked: TaskClass | None) -> TaskClass:
        """Return the task class of a session: the one asked for, else the agent's own."""
        if asked is not None:
            return asked
        for entry in self.classes:
            if fnmatchcase(agent, entry.agent):
                return entry.task_class
        return DEFAULT_CLASS
