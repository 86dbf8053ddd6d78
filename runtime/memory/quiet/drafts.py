"""What the house writes in quiet hours, out of experiences that it reads."""

from collections.abc import Sequence
from typing import Protocol

from governor.experience.experience import Draft, Experience, Provenance
from governor.experience.kinds import ExperienceKind, TrustLane
from governor.experience.quiet import PREPARED, Made, Source, lesson_name
from governor.experience.tokens import tokens_of
from governor.experience.trust import Attempt, Way, decide
from governor.ids import ExperienceId, NamespaceId, TenantId
from governor.retrieval.analysis import index_terms
from memory_store.experiences.book import ExperienceBook
from runtime.memory.house.allowance import HOUSE
from runtime.memory.quiet.night import READ_TOKENS_MAX
from tool_gateway.ports import Clock

_TEXT_BYTES_MAX = 64 * 1024
_MEDIA_TYPE = "text/plain"
_SOURCE = "the house, in quiet hours"
_SUMMARY_CHARS = 400


class Keep(Protocol):
    """Writes what the house has made."""

    async def __call__(self, draft: Draft, *, is_found: bool) -> bool:
        """Keep a draft and tell whether it is new; one that is not found is read by its index."""
        ...


class Drafts:
    """Reads what is made use of, and writes down what is made of it."""

    def __init__(self, experiences: ExperienceBook, *, clock: Clock) -> None:
        """Take where the experiences are."""
        self._experiences = experiences
        self._clock = clock

    async def texts(self, found: Sequence[Experience]) -> list[Source]:
        """Return experiences with their texts; of one that is no text, or large, its summary."""
        if not found:
            return []
        tenant = found[0].tenant
        contents = await self._experiences.contents(
            tuple(one.experience_id for one in found), tenant=tenant, bytes_max=_TEXT_BYTES_MAX
        )
        sources: list[Source] = []
        room = READ_TOKENS_MAX
        for one, content in zip(found, contents, strict=True):
            text = one.summary if content is None else content.decode(errors="replace")
            if tokens_of(text) > room:
                text = one.summary
            room -= tokens_of(text)
            if room < 0:
                break
            sources.append(Source(experience=one, text=text))
        return sources

    def draft(
        self,
        tenant: TenantId,
        namespace: NamespaceId,
        made: Made,
        *,
        kind: ExperienceKind,
        expires_at_ms: int | None = None,
        said: str = "",
    ) -> Draft:
        """Return what was made as a draft of the house's own, in the lane of its sources."""
        now_ms = self._clock.now_ms()
        placed = decide(
            Attempt(
                way=Way.HOUSE,
                writer=HOUSE,
                kind=kind,
                saw_untrusted=made.lane is TrustLane.WEB,
                sources=(made.lane,),
            )
        )
        index = (
            lesson_name(tenant, made)
            if kind is ExperienceKind.LESSON
            else ExperienceId(self._clock.fresh("exp"))
        )
        return Draft(
            experience_id=index,
            tenant=tenant,
            namespace=namespace,
            kind=kind,
            lane=placed.lane,
            standing=placed.standing,
            content=made.text.encode(),
            media_type=_MEDIA_TYPE,
            summary=(f"{said}: {made.text}" if said else made.text)[:_SUMMARY_CHARS],
            provenance=Provenance(writer=HOUSE, source=_SOURCE, derived_from=made.sources),
            learned_at_ms=now_ms,
            valid_from_ms=now_ms,
            valid_until_ms=expires_at_ms,
            tags=(PREPARED,) if kind is ExperienceKind.FACT else (),
            expires_at_ms=expires_at_ms,
        )


def words_of(text: str) -> tuple[str, ...]:
    """Return the words that a text is known by."""
    return tuple(index_terms(text).split())
