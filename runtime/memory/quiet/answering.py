"""Answers beforehand what is asked time and again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import msgspec

from governor.experience.experience import Experience
from governor.experience.kinds import ExperienceKind, Standing
from governor.experience.quiet import PREPARED, SOURCES_MAX, Made, answer_from
from governor.experience.search import Filters, Search
from governor.experience.tokens import tokens_of
from governor.ids import NamespaceId
from governor.retrieval.analysis import query_terms
from memory_store.lessons.questions import Prepared, Recurring
from memory_store.store import Store
from runtime.configuration.memory_learning import SleepTerms
from runtime.memory.house.allowance import Allowance, Spent
from runtime.memory.ports import Searching
from runtime.memory.quiet.drafts import Drafts, Keep, words_of
from runtime.memory.quiet.night import READ_TOKENS_MAX, IsIdle, Night, after
from tool_gateway.ports import Clock

_QUESTIONS_AT_ONCE = 16


class Answering:
    """Makes the answers that searches are spared for."""

    def __init__(
        self,
        store: Store,
        searching: Searching,
        allowance: Allowance,
        *,
        keep: Keep,
        is_idle: IsIdle,
        clock: Clock,
        terms: Callable[[], SleepTerms],
    ) -> None:
        """Take the parts; `keep` writes a draft of the house's own."""
        self._store = store
        self._searching = searching
        self._allowance = allowance
        self._keep = keep
        self._is_idle = is_idle
        self._clock = clock
        self._terms = terms
        self._drafts = Drafts(store.experiences, clock=clock)

    async def work(self, night: Night) -> Night:
        """Return the round with the answers that were made."""
        terms = self._terms()
        for one in await self._store.questions.recurring(
            asked_min=terms.asked_min, most=_QUESTIONS_AT_ONCE
        ):
            if not self._is_idle():
                return replace(night, was_disturbed=True)
            do = partial(self._answer_one, one, terms)
            spent = await self._allowance.work(
                one.about.tenant, "answer", read_tokens=READ_TOKENS_MAX, do=do
            )
            night = after(night, spent, answered=0 if spent is None else spent.made)
        return night

    async def _answer_one(self, one: Recurring, terms: SleepTerms) -> Spent:
        about, now_ms = one.about, self._clock.now_ms()
        head = await self._store.questions.head(about.tenant)
        filters = msgspec.json.decode(about.filters, type=Filters)
        found = await self._searching.search(
            Search(
                tenant=about.tenant,
                namespaces=about.namespaces,
                text=about.words,
                now_ms=now_ms,
                most=SOURCES_MAX,
                filters=filters,
            )
        )
        own = [hit.experience for hit in found.hits if PREPARED not in hit.experience.tags]
        sources = await self._drafts.texts(own)
        read = sum(tokens_of(source.text) for source in sources)
        made = answer_from(
            query_terms(about.words),
            sources,
            tokens_max=terms.answer_tokens_max,
            words_of=words_of,
        )
        if made is None or made.lane not in filters.lanes:
            return Spent(read_tokens=read)
        # An answer that is as long as what it stands for would save nothing.
        if tokens_of(made.text) >= about.tokens:
            return Spent(read_tokens=read)
        home = _home_of(made, [source.experience for source in sources])
        if home is None:
            return Spent(read_tokens=read)
        draft = self._drafts.draft(
            about.tenant,
            home,
            made,
            kind=ExperienceKind.FACT,
            expires_at_ms=now_ms + terms.answer_kept_ms,
            said=about.words,
        )
        # It says less than its sources: a search for something else must not find it.
        if draft.standing is not Standing.ACTIVE or not await self._keep(draft, is_found=False):
            return Spent(read_tokens=read)
        await self._store.questions.answered(
            about.tenant,
            about.question,
            Prepared(
                answer=draft.experience_id,
                sources=made.sources,
                answer_tokens=tokens_of(made.text),
                searched_tokens=about.tokens,
                answered_at_ms=now_ms,
                head=head,
            ),
        )
        return Spent(read_tokens=read, made=1)


def _home_of(made: Made, sources: Sequence[Experience]) -> NamespaceId | None:
    """Return where an answer is kept, so that nobody reads it who may not read its sources.

    That is the namespace that they are all of. There is no other: who may read several may be
    told one day that it may not, and what was written elsewhere would stay with it.
    """
    spaces = {one.namespace for one in sources if one.experience_id in made.sources}
    return spaces.pop() if len(spaces) == 1 else None
