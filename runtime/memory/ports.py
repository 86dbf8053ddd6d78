"""What the desk of experiences needs of others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from governor.call import ToolCall
from governor.experience.answer import Answer
from governor.experience.experience import Experience
from governor.experience.namespace import Namespace
from governor.experience.search import Found, MemoryTier, Search
from governor.experience.sharing import Entry
from governor.flow.labels import Label
from governor.ids import ExperienceId, ToolName
from governor.scope import ScopeChain
from runtime.memory.seen import Seeing
from tool_gateway.memory.ports import SearchAsked


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """What was found by which plan, why by that, and what to show in place of some contents."""

    found: Found
    plan: str
    why: str
    texts: Mapping[ExperienceId, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What became of an offer; `found_as` is where the others find it, None where they do not."""

    entry: Entry
    found_as: ExperienceId | None = None


class Searching(Protocol):
    """Where experiences are found."""

    async def search(self, search: Search) -> Found:
        """Return what is found."""
        ...


class SeenMarks(Seeing, Protocol):
    """Knows what sessions have seen, and keeps it; both may raise that the ledger is away."""

    async def mark(self, chain: ScopeChain, taints: frozenset[Label], *, tool: ToolName) -> None:
        """Keep what a session is shown now."""
        ...


class WorkingContext(Protocol):
    """Puts together where a session stands."""

    async def context_of(self, call: ToolCall, *, focus: str, tokens_max: int) -> Answer:
        """Return the workspace of the call's session."""
        ...


class Credited(Protocol):
    """Hears which experiences were used, and how that went."""

    async def __call__(
        self,
        call: ToolCall,
        indices: tuple[ExperienceId, ...],
        *,
        used: float,
        helpful: float | None,
    ) -> None:
        """Take it in; nothing that fails here reaches the one who told."""
        ...


class CaseChoice(Protocol):
    """Finds cases by what they are worth, where only cases are asked for."""

    async def choose(self, call: ToolCall, search: Search) -> Found:
        """Return the cases."""
        ...


class TieredSearching(Protocol):
    """Chooses how well each search is done, and keeps what it chose."""

    async def recalled(
        self,
        call: ToolCall,
        search: Search,
        *,
        asked: MemoryTier | None,
        tokens_max: int,
    ) -> Recalled:
        """Return what is found; the choice is kept once `given` says what was shown."""
        ...

    def given(self, call: ToolCall, indices: Sequence[ExperienceId], *, tokens: int) -> None:
        """Keep the choice that was made for a call, with what was shown by it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a model said, None where that is of no use, and what was paid for it."""

    text: str | None
    cost_microusd: int


class TeamBanks(Protocol):
    """Decides what of an agent's the others of its team find."""

    async def offered(
        self, call: ToolCall, one: Experience, bank: Namespace, *, asked: bool = False
    ) -> Offered:
        """Return whether an experience enters a bank; it stays where it is, too."""
        ...


TierChoice = Callable[[ToolCall, SearchAsked], MemoryTier]
