"""What the desk of experiences needs of others."""

from collections.abc import Callable
from typing import Protocol

from governor.call import ToolCall
from governor.experience.answer import Answer
from governor.experience.search import Found, MemoryTier, Search
from governor.flow.labels import Label
from governor.ids import ExperienceId, ToolName
from governor.scope import ScopeChain
from tool_gateway.memory.ports import SearchAsked


class Searching(Protocol):
    """Where experiences are found."""

    async def search(self, search: Search) -> Found:
        """Return what is found."""
        ...


class SeenMarks(Protocol):
    """Knows what sessions have seen; both may raise that the ledger does not answer."""

    async def seen_by(self, chain: ScopeChain) -> frozenset[Label]:
        """Return what is known that a session has seen."""
        ...

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


TierChoice = Callable[[ToolCall, SearchAsked], MemoryTier]
