"""What the tools of the experience memory need of whoever keeps it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from governor.call import ToolCall
from governor.experience.answer import Answer
from governor.experience.experience import Experience
from governor.experience.kinds import ExperienceKind
from governor.experience.search import Filters, MemoryTier
from governor.ids import ExperienceId, TaskClass
from tool_gateway.catalog import ToolEntry
from tool_gateway.results import ToolResult


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteAsked:
    """What an agent wants kept, in its own words; None where it says nothing."""

    content: bytes
    media_type: str
    kind: ExperienceKind
    namespace: str
    summary: str = ""
    actor: str = ""
    tags: tuple[str, ...] = ()
    task_class: TaskClass | None = None
    valid_from_ms: int | None = None
    valid_until_ms: int | None = None
    outcome: float | None = None
    cost_microusd: int | None = None
    supersedes: ExperienceId | None = None
    derived_from: tuple[ExperienceId, ...] = ()
    expires_in_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What became of a write: the experience, and in which namespace it stands by its name.

    It is not new where the same call had written the same before. `doubts` say why it waits.
    `shared` is what its team's bank made of it, "" where none was asked, and `shared_as` where the
    others find it; it `is_copied` where the bank now keeps it too.
    """

    experience: Experience
    namespace: str
    is_new: bool = True
    doubts: tuple[str, ...] = ()
    shared: str = ""
    shared_as: ExperienceId | None = None
    is_copied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """A range of an experience's content, of which the whole proved intact.

    `role` is as what it may be taken, `receipt` what proves that nothing was changed. `before`
    and `after` are the lines that say so around the bytes, which stay as they are.
    """

    experience: Experience
    content: bytes
    offset: int
    role: str
    receipt: Mapping[str, object]
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchAsked:
    """What is searched for, and how much of it may be shown.

    No namespaces are those that a search goes through by itself; no tier leaves the choice.
    """

    text: str
    filters: Filters
    tokens_max: int
    most: int
    namespaces: tuple[str, ...] = ()
    tier: MemoryTier | None = None
    is_of_this_session: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AroundAsked:
    """Which experience is to be shown with how many of its neighbours, and its sources."""

    index: ExperienceId
    before: int
    after: int
    sources: bool
    tokens_max: int


class ExperienceMemory(Protocol):
    """Where experiences are kept; who asks, in which session and call, is the call's own word.

    Every method may raise MemoryUnavailableError; those that take an index ExperienceMissError,
    in the same words for one that is another's and for one that there is not.
    """

    async def write(self, call: ToolCall, asked: WriteAsked) -> Kept:
        """Keep an experience.

        Raises:
            MemoryRefusedError: it may not be kept, or there is no room for it.
        """
        ...

    async def portion(
        self,
        call: ToolCall,
        index: ExperienceId,
        *,
        offset: int,
        length: int,
        is_more: bool = False,
    ) -> Portion:
        """Return a range of bytes of what was kept; `is_more` goes on with a reading.

        Raises:
            ExperienceDamagedError: the stored bytes are not those that were written.
        """
        ...

    async def search(self, call: ToolCall, asked: SearchAsked) -> Answer:
        """Return what is found, as much as there is room for.

        Raises:
            MemoryRefusedError: a namespace is none that the caller may read.
        """
        ...

    async def around(self, call: ToolCall, asked: AroundAsked) -> Answer:
        """Return an experience with what stands around it."""
        ...

    async def context(self, call: ToolCall, *, focus: str, tokens_max: int) -> Answer:
        """Return where the session stands."""
        ...

    async def credit(
        self,
        call: ToolCall,
        indices: tuple[ExperienceId, ...],
        *,
        used: float,
        helpful: float | None,
    ) -> None:
        """Keep whether experiences were used, and how that went."""
        ...

    async def forget(self, call: ToolCall, indices: tuple[ExperienceId, ...]) -> int:
        """Erase what the caller wrote itself; return how much else went with it.

        Raises:
            MemoryRefusedError: one of them somebody else wrote.
        """
        ...


class ResultRecorder(Protocol):
    """Where results of tools become experiences; nothing is told of a failure."""

    async def record(
        self, call: ToolCall, result: ToolResult, *, entry: ToolEntry, is_oversize: bool
    ) -> ExperienceId | None:
        """Keep a result where the configuration says so; None where it was not kept."""
        ...

    async def retold(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return the answer of a write again, with the words of what is kept by now."""
        ...
