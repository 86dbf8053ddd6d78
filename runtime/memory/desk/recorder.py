"""What tools answered, kept as experiences beside the archive: a help, and no duty."""

import logging
from collections.abc import Callable

from governor.call import ToolCall
from governor.experience.kinds import ExperienceKind
from governor.experience.namespace import OWN
from governor.experience.trust import Way
from governor.flow.labels import Label, Traits
from governor.ids import ExperienceId
from memory_store.errors import StoreError
from runtime.configuration.memory import MemoryTerms, Recorded
from runtime.memory.desk.writes import Told, Writes
from tool_gateway.archiving import archive_form
from tool_gateway.catalog import ToolEntry
from tool_gateway.errors import GatewayError
from tool_gateway.memory.ports import WriteAsked
from tool_gateway.memory.retelling import index_of, with_words
from tool_gateway.results import ToolResult
from tool_gateway.telemetry import count_failure

logger = logging.getLogger(__name__)


class Recorder:
    """Writes results of tools into the memory of the agent that called them."""

    def __init__(
        self,
        writes: Writes,
        *,
        terms: Callable[[], MemoryTerms],
        traits_of: Callable[[ToolEntry], Traits],
    ) -> None:
        """Take the path of every write; `traits_of` tells what a tool shows."""
        self._writes = writes
        self._terms = terms
        self._traits_of = traits_of

    async def record(
        self, call: ToolCall, result: ToolResult, *, entry: ToolEntry, is_oversize: bool
    ) -> ExperienceId | None:
        """Keep a result where the configuration says so; None where it was not kept.

        It fails open: the result reaches its reader whatever becomes of this, and it is counted.
        """
        terms = self._terms()
        if terms.record is Recorded.NONE or not (is_oversize or terms.record is Recorded.ALL):
            return None
        content, media_type = archive_form(result)
        if not content or len(content) > terms.item_bytes_max:
            return None
        asked = WriteAsked(
            content=content,
            media_type=media_type,
            kind=ExperienceKind.TOOL_RESULT,
            namespace=OWN,
            actor=call.tool,
            outcome=0.0 if result.is_error else None,
        )
        shows_untrusted = Label.SEES_UNTRUSTED in self._traits_of(entry).labels
        told = Told(
            way=Way.RESULT,
            source=f"tool {call.tool}",
            upstream=entry.backend,
            # A tool can echo what it is told: then it is what its session has seen that counts.
            saw_untrusted=True if shows_untrusted else None,
        )
        try:
            kept = await self._writes.write(call, asked, told=told)
        except (GatewayError, StoreError) as error:
            count_failure("memory record")
            logger.warning("%s: its result was not remembered: %s", call.tool, error)
            return None
        return kept.experience.experience_id

    async def retold(self, call: ToolCall, result: ToolResult) -> ToolResult:
        """Return the answer of a write again, with the words of what is kept by now."""
        index = index_of(result)
        if index is None:
            return result
        try:
            return with_words(result, await self._writes.readable(call.chain, ExperienceId(index)))
        except (GatewayError, StoreError):
            count_failure("memory record")
            return result
