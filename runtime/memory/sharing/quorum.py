"""What lets experiences out of quarantine without an administrator: that they served others."""

import logging
from collections.abc import Sequence
from dataclasses import replace

from governor.call import ToolCall
from governor.experience.experience import Experience
from governor.experience.kinds import Standing
from governor.experience.promotion import Asker, Stands, Vote, Whereto, promote
from governor.flow.labels import Label
from governor.ids import ExperienceId
from memory_store.errors import StoreError
from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.values import UseNote
from runtime.memory.ports import SeenMarks
from tool_gateway.errors import GatewayError
from tool_gateway.ports import Clock
from tool_gateway.telemetry import count_failure

logger = logging.getLogger(__name__)

_WHY = "it served other agents"
# Of one experience no more notes are looked at: the latest.
_NOTES_MAX = 100


class QuorumPromotion:
    """Promotes what waits once enough agents have said that it helped them.

    An agent whose session has seen what others may have written has no vote: it may have been
    told how to vote, by what it votes on.
    """

    def __init__(self, book: ExperienceBook, marks: SeenMarks, *, clock: Clock) -> None:
        """Take where experiences are, and who knows what sessions have seen."""
        self._book = book
        self._marks = marks
        self._clock = clock

    async def __call__(
        self,
        call: ToolCall,
        indices: tuple[ExperienceId, ...],
        *,
        used: float,
        helpful: float | None,
    ) -> None:
        """Promote those of `indices` that there is a quorum for now; it fails open, and counted."""
        if helpful is None or not used:
            return
        try:
            for one in await self._book.get(indices, tenant=call.chain.tenant):
                if one.standing is Standing.QUARANTINED:
                    await self._judge(call, one)
        except (StoreError, GatewayError) as error:
            count_failure("memory quorum")
            logger.warning("what agents say of experiences was not counted: %s", error)

    async def _judge(self, call: ToolCall, waiting: Experience) -> None:
        chain, index = call.chain, waiting.experience_id
        notes = await self._book.uses_of(
            (index,), tenant=chain.tenant, most=_NOTES_MAX, only_rated=True
        )
        asker = Asker(principal=chain.agent)
        votes = await self._votes(call, notes)
        if isinstance(promote(waiting, Whereto.EVIDENCE, asker=asker, votes=votes), Stands):
            await self._book.mark(
                (index,),
                Standing.ACTIVE,
                tenant=chain.tenant,
                by=chain.agent,
                why=_WHY,
                now_ms=self._clock.now_ms(),
            )

    async def _votes(self, call: ToolCall, notes: Sequence[UseNote]) -> list[Vote]:
        votes = []
        for note in notes:
            if note.score is None or not note.used or note.session is None:
                continue
            reader = replace(call.chain, agent=note.reader, session=note.session, ancestors=())
            seen = await self._marks.seen_by(reader)
            votes.append(
                Vote(
                    reader=note.reader,
                    outcome=note.score,
                    saw_untrusted=Label.SEES_UNTRUSTED in seen,
                )
            )
        return votes
