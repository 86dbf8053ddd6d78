"""How an experience comes to be kept: what is known of it, where it is put, and that it is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from governor.call import ToolCall
from governor.experience.experience import Draft, Experience, Provenance
from governor.experience.kinds import Standing, TrustLane
from governor.experience.namespace import Namespace, Right
from governor.experience.quota import Exceeded
from governor.experience.summary import cleaned, summary_of
from governor.experience.trust import Attempt, Corrected, Placed, Way, decide
from governor.ids import ExperienceId, TaskClass
from governor.retrieval.vectors import StaticVectors
from governor.scope import ScopeChain
from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.values import Indexed, Written
from runtime.configuration.memory import MemoryTerms
from runtime.memory.indexing import indexed
from runtime.memory.limits import limits_of
from runtime.memory.namespaces.granted import Namespaces
from runtime.memory.ports import SeenMarks
from runtime.memory.seen import has_seen_untrusted
from runtime.memory.words import memory_words
from tool_gateway.errors import (
    ExperienceMissError,
    MemoryRefusedError,
)
from tool_gateway.memory.ports import Kept, WriteAsked
from tool_gateway.ports import Clock

_MS_PER_SECOND = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the house knows of a write beside what is asked for."""

    way: Way
    source: str
    upstream: str | None = None
    saw_untrusted: bool | None = None
    experience_id: ExperienceId | None = None


class Writes:
    """Writes experiences: every way in ends here."""

    def __init__(
        self,
        book: ExperienceBook,
        namespaces: Namespaces,
        *,
        marks: SeenMarks,
        clock: Clock,
        terms: Callable[[], MemoryTerms],
        vectors: Callable[[], StaticVectors | None],
    ) -> None:
        """Take where experiences are kept and what is known of their sessions."""
        self._book = book
        self._namespaces = namespaces
        self._marks = marks
        self._clock = clock
        self._terms = terms
        self._vectors = vectors

    async def write(self, call: ToolCall, asked: WriteAsked, *, told: Told | None = None) -> Kept:
        """Keep what is asked for, by an agent's own words where nothing else is told.

        Raises:
            MemoryRefusedError: it may not be kept, or there is no room for it.
            ExperienceMissError: what it corrects is not there for its writer.
            MemoryUnavailableError: the store does not answer.
        """
        terms, chain = self._terms(), call.chain
        told = Told(way=Way.AGENT, source=f"agent {chain.agent}") if told is None else told
        if len(asked.content) > terms.item_bytes_max:
            message = (
                f"content: {len(asked.content)} bytes are above the {terms.item_bytes_max} of one "
                "experience; write it in parts"
            )
            raise MemoryRefusedError(message)
        namespace = await self._namespaces.to_write(chain, asked.namespace)
        placed = decide(await self._attempt(chain, namespace, asked, told))
        draft = self._draft(call, namespace, asked, told, placed)
        ready = await indexed(draft, self._vectors(), said=cleaned(asked.summary))
        written = await self._written(ready, terms)
        with memory_words():
            (kept,) = await self._book.get((written.experience_id,), tenant=chain.tenant)
        return Kept(
            experience=kept,
            namespace=namespace.name,
            is_new=written.is_new,
            doubts=tuple(doubt.value for doubt in placed.doubts),
        )

    async def _attempt(
        self, chain: ScopeChain, namespace: Namespace, asked: WriteAsked, told: Told
    ) -> Attempt:
        corrected = None
        if asked.supersedes is not None:
            corrected = await self.readable(chain, asked.supersedes)
            if corrected is None:
                raise ExperienceMissError
            if not await self._namespaces.permits(chain, corrected.namespace, Right.WRITE):
                raise MemoryRefusedError("supersedes: you may read it, and not write where it is")
        sources = [await self.readable(chain, index) for index in asked.derived_from]
        if any(source is None for source in sources):
            raise ExperienceMissError
        saw = told.saw_untrusted
        return Attempt(
            way=told.way,
            writer=chain.agent,
            kind=asked.kind,
            saw_untrusted=await self.has_seen_untrusted(chain) if saw is None else saw,
            sources=tuple(_lanes(sources)),
            corrects=None
            if corrected is None
            else Corrected(lane=corrected.lane, writer=corrected.provenance.writer),
        )

    async def readable(self, chain: ScopeChain, index: ExperienceId) -> Experience | None:
        """Return an experience that may be read, None alike where it is gone or another's."""
        try:
            with memory_words():
                (one,) = await self._book.get(
                    (index,), tenant=chain.tenant, now_ms=self._clock.now_ms()
                )
        except ExperienceMissError:
            return None
        if one.standing is Standing.REVOKED:
            return None
        may_read = await self._namespaces.permits(chain, one.namespace, Right.READ)
        return one if may_read else None

    async def has_seen_untrusted(self, chain: ScopeChain) -> bool:
        """Tell whether a session has seen what others may have written, or may have."""
        return await has_seen_untrusted(self._marks, chain, where_unknown=True)

    def _draft(
        self,
        call: ToolCall,
        namespace: Namespace,
        asked: WriteAsked,
        told: Told,
        placed: Placed,
    ) -> Draft:
        now_ms = self._clock.now_ms()
        given = told.experience_id
        return Draft(
            experience_id=ExperienceId(self._clock.fresh("exp")) if given is None else given,
            tenant=call.chain.tenant,
            namespace=namespace.namespace,
            kind=asked.kind,
            lane=placed.lane,
            standing=placed.standing,
            content=asked.content,
            media_type=asked.media_type,
            summary=cleaned(asked.summary) or summary_of(asked.content, asked.media_type),
            provenance=Provenance(
                writer=call.chain.agent,
                call_id=call.call_id,
                upstream=told.upstream,
                source=told.source,
                derived_from=asked.derived_from,
            ),
            learned_at_ms=now_ms,
            valid_from_ms=now_ms if asked.valid_from_ms is None else asked.valid_from_ms,
            valid_until_ms=asked.valid_until_ms,
            actor=asked.actor,
            session=call.chain.session,
            task_class=_class_of(call, asked),
            tags=asked.tags,
            cost_microusd=asked.cost_microusd,
            outcome=asked.outcome,
            supersedes=asked.supersedes,
            expires_at_ms=self._expires_at_ms(asked, now_ms),
        )

    def _expires_at_ms(self, asked: WriteAsked, now_ms: int) -> int | None:
        """Return when it is gone: as its writer says, never later than its kind is kept."""
        kept_ms = self._terms().kept_ms.get(asked.kind)
        said_ms = None if asked.expires_in_s is None else asked.expires_in_s * _MS_PER_SECOND
        known = [one for one in (kept_ms, said_ms) if one is not None]
        return now_ms + min(known) if known else None

    async def _written(self, ready: Indexed, terms: MemoryTerms) -> Written:
        limits = limits_of(terms, now_ms=self._clock.now_ms())
        with memory_words():
            (written,) = await self._book.write((ready,), limits=limits)
        if isinstance(written, Exceeded):
            raise MemoryRefusedError(_no_room(written))
        return written


def _no_room(full: Exceeded) -> str:
    return (
        f"there is no room in lane {full.lane.value} for what you write: {full.used} of "
        f"{full.limit} {full.unit} are used; there is again at {full.resets_at_ms} (epoch ms)"
    )


def _lanes(sources: Sequence[Experience | None]) -> list[TrustLane | None]:
    return [None if one is None else one.lane for one in sources]


def _class_of(call: ToolCall, asked: WriteAsked) -> TaskClass | None:
    return call.task_class if asked.task_class is None else asked.task_class
