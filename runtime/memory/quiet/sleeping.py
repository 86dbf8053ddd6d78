"""What the house does for the memory while nobody asks anything of it.

It reflects on sessions that ended, answers beforehand what is asked time and again, makes lessons
of cases that repeat, links what says the same, and removes what has run out. Each work is a call
of the house's own in the ledger; when its budget for a tenant is used up, it sleeps on.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol

import anyio
import msgspec

from governor.experience.experience import Draft, Experience, Provenance
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.quiet import (
    PREPARED,
    SOURCES_MAX,
    Lesson,
    Made,
    Source,
    answer_from,
    lesson_name,
    lessons_in,
    twins_in,
)
from governor.experience.search import Filters, Search
from governor.experience.tokens import tokens_of
from governor.experience.trust import Attempt, Way, decide
from governor.ids import ExperienceId, NamespaceId, TaskClass, TenantId
from governor.retrieval.analysis import index_terms, query_terms
from memory_store.errors import StoreError
from memory_store.lessons.ended import EndedSession
from memory_store.lessons.questions import Prepared, Recurring
from memory_store.store import Store
from runtime.configuration.memory_learning import SleepTerms
from runtime.memory.house.allowance import HOUSE, Allowance, Spent
from runtime.memory.house.model import HouseModel
from runtime.memory.lessons.playbooks import SESSIONS_MAX, AskModel, Place, PlaybookDesk
from runtime.memory.ports import Searching
from tool_gateway import telemetry
from tool_gateway.ports import Clock

logger = logging.getLogger(__name__)
_QUESTIONS_AT_ONCE = 16
_CASES_READ_MAX = 200
_TENANTS_AT_ONCE = 200
# Of sessions that ended, in one round and in one reflection; the rest waits for the next.
_NEW_MAX = 100
_NEW_AT_ONCE = 20
_TEXT_BYTES_MAX = 64 * 1024
_TOKENS_MAX = 16_000
_MEDIA_TYPE = "text/plain"
_SOURCE = "the house, in quiet hours"
_SUMMARY_CHARS = 400
_LOOK_BACK_MS = 7 * 86_400_000


class Keep(Protocol):
    """Writes what the house has made."""

    async def __call__(self, draft: Draft, *, is_found: bool) -> bool:
        """Keep a draft and tell whether it is new; one that is not found is read by its index."""
        ...


# Entered, it tells whether it is this sidecar's turn to work until it is left.
Turn = Callable[[], AbstractAsyncContextManager[bool]]
PlaceOf = Callable[[EndedSession], Awaitable[Place]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """What one round of work came to; `denied` works were allowed by no budget."""

    reflected: int = 0
    answered: int = 0
    lessons: int = 0
    linked: int = 0
    denied: int = 0
    was_disturbed: bool = False


@dataclass(slots=True, kw_only=True)
class _Done:
    """What is remembered from round to round, so that nothing is done twice in a row."""

    reflected_until_ms: int | None = None
    heads: dict[TenantId, int] = field(default_factory=dict)


class Sleeper:
    """Works while the sidecar is idle, one thing at a time."""

    def __init__(
        self,
        store: Store,
        searching: Searching,
        playbooks: PlaybookDesk,
        allowance: Allowance,
        *,
        keep: Keep,
        place_of: PlaceOf,
        is_idle: Callable[[], bool],
        clock: Clock,
        terms: Callable[[], SleepTerms],
        turn: Turn,
        model: HouseModel | None = None,
    ) -> None:
        """Take the parts; `keep` writes a draft of the house's own, `is_idle` is asked often."""
        self._turn = turn
        self._store = store
        self._searching = searching
        self._playbooks = playbooks
        self._allowance = allowance
        self._keep = keep
        self._place_of = place_of
        self._is_idle = is_idle
        self._clock = clock
        self._terms = terms
        self._model = model
        self._done = _Done()

    async def work_for_ever(self) -> None:
        """Work a round now and then, until cancelled; a failure is counted and tried again."""
        while True:
            await anyio.sleep(self._terms().every_seconds)
            try:
                await self.night()
            except StoreError as error:
                telemetry.count_failure("sleep")
                logger.warning("work in quiet hours failed: %s; it will be tried again", error)
            except Exception:
                telemetry.count_failure("sleep")
                logger.exception("work in quiet hours failed; it will be tried again")

    async def night(self) -> Night:
        """Return what was done in one round; it ends as soon as somebody asks something.

        Of the sidecars on one database one works at a time; the others sleep on.

        Raises:
            StoreError: something could not be read or kept.
        """
        night = Night()
        async with self._turn() as is_ours:
            return await self._worked(night) if is_ours else night

    async def _worked(self, night: Night) -> Night:
        for work in (self._reflect, self._answer, self._teach):
            if not self._is_idle():
                return replace(night, was_disturbed=True)
            night = await work(night)
        return night

    async def _reflect(self, night: Night) -> Night:
        since_ms = self._done.reflected_until_ms
        if since_ms is None:
            # What ended long before the start was reflected on then, or never will be.
            since_ms = max(0, self._clock.now_ms() - _LOOK_BACK_MS)
        new = _first_of(await self._store.ended.since(since_ms))
        if not new:
            return night
        # They are looked at together with those of a while before: what two have met repeats.
        back_ms = max(0, since_ms - _LOOK_BACK_MS)
        earlier = await self._store.ended.before(since_ms, since_ms=back_ms)
        groups = await self._by_place(new)
        beside = await self._by_place(earlier)
        for place, sessions in groups.items():
            if not self._is_idle():
                return replace(night, was_disturbed=True)
            night = await self._reflect_in(place, sessions, beside.get(place, []), night)
        self._done.reflected_until_ms = new[-1].ended_at_ms
        return night

    async def _by_place(self, ended: Sequence[EndedSession]) -> dict[Place, list[EndedSession]]:
        groups: dict[Place, list[EndedSession]] = {}
        for one in ended:
            groups.setdefault(await self._place_of(one), []).append(one)
        return groups

    async def _reflect_in(
        self,
        place: Place,
        new: Sequence[EndedSession],
        earlier: Sequence[EndedSession],
        night: Night,
    ) -> Night:
        name = f"reflect {place.namespace} {place.task_class}"
        # Another sidecar, or this one before it was started anew, may have done it.
        begun_ms = await self._store.questions.last_work(place.tenant, name)
        if begun_ms > new[-1].ended_at_ms:
            return night
        for start in range(0, len(new), _NEW_AT_ONCE):
            some = new[start : start + _NEW_AT_ONCE]
            told = (*some, *new[:start][::-1], *earlier)[:SESSIONS_MAX]
            do = partial(self._reflect_on, place, told)
            spent = await self._allowance.work(
                place.tenant, "reflect", read_tokens=_TOKENS_MAX, do=do, kept_as=name
            )
            night = _after(night, spent, reflected=0 if spent is None else spent.made)
        return night

    async def _reflect_on(self, place: Place, sessions: Sequence[EndedSession]) -> Spent:
        ask: AskModel | None = None
        if self._model is not None:
            ask = partial(
                self._model.ask,
                chain=self._allowance.chain(place.tenant),
                session_name=self._allowance.session_name(place.tenant),
            )
        found = await self._playbooks.reflect(place, sessions, ask=ask)
        return Spent(read_tokens=found.read_tokens, made=found.added)

    async def _answer(self, night: Night) -> Night:
        terms = self._terms()
        for one in await self._store.questions.recurring(
            asked_min=terms.asked_min, most=_QUESTIONS_AT_ONCE
        ):
            if not self._is_idle():
                return replace(night, was_disturbed=True)
            do = partial(self._answer_one, one, terms)
            spent = await self._allowance.work(
                one.about.tenant, "answer", read_tokens=_TOKENS_MAX, do=do
            )
            night = _after(night, spent, answered=0 if spent is None else spent.made)
        return night

    async def _answer_one(self, one: Recurring, terms: SleepTerms) -> Spent:
        about, now_ms = one.about, self._clock.now_ms()
        head = await self._head(about.tenant)
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
        sources = await self._texts(own)
        read = sum(tokens_of(source.text) for source in sources)
        made = answer_from(
            query_terms(about.words),
            sources,
            tokens_max=terms.answer_tokens_max,
            words_of=_words_of,
        )
        if made is None or made.lane not in filters.lanes:
            return Spent(read_tokens=read)
        # An answer that is as long as what it stands for would save nothing.
        if tokens_of(made.text) >= about.tokens:
            return Spent(read_tokens=read)
        home = _home_of(made, [source.experience for source in sources])
        if home is None:
            return Spent(read_tokens=read)
        draft = self._draft(
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

    async def _teach(self, night: Night) -> Night:
        async for tenant in self._tenants():
            head = await self._head(tenant)
            if self._done.heads.get(tenant) == head:
                continue
            if not self._is_idle():
                return replace(night, was_disturbed=True)
            linked = [0]
            do = partial(self._teach_tenant, tenant, linked)
            spent = await self._allowance.work(tenant, "teach", read_tokens=_TOKENS_MAX, do=do)
            lessons = 0 if spent is None else spent.made
            night = _after(night, spent, lessons=lessons, linked=linked[0])
            if spent is not None:
                self._done.heads[tenant] = await self._head(tenant)
        return night

    async def _tenants(self) -> AsyncIterator[TenantId]:
        cursor: str | None = None
        while True:
            page = await self._store.tenants.page(limit=_TENANTS_AT_ONCE, cursor=cursor)
            for one in page.items:
                yield one.tenant_id
            cursor = page.next
            if cursor is None:
                return

    async def _teach_tenant(self, tenant: TenantId, linked: list[int]) -> Spent:
        cases = await self._store.experiences.page(
            tenant=tenant,
            kind=ExperienceKind.CASE,
            standing=Standing.ACTIVE,
            limit=_CASES_READ_MAX,
        )
        sources = await self._texts(cases.items)
        read = sum(tokens_of(source.text) for source in sources)
        made = 0
        groups: dict[tuple[NamespaceId, TaskClass | None], list[Source]] = {}
        for source in sources:
            one = source.experience
            groups.setdefault((one.namespace, one.task_class), []).append(source)
        for (namespace, task_class), group in groups.items():
            words = [
                (source.experience.experience_id, _words_of(source.text))
                for source in sorted(group, key=lambda each: each.experience.number)
            ]
            linked[0] += await self._store.links.tie(twins_in(words), tenant=tenant)
            for lesson in lessons_in(group, words_of=_words_of):
                made += await self._keep_lesson(tenant, namespace, task_class, lesson)
        return Spent(read_tokens=read, made=made)

    async def _keep_lesson(
        self,
        tenant: TenantId,
        namespace: NamespaceId,
        task_class: TaskClass | None,
        lesson: Lesson,
    ) -> bool:
        draft = self._draft(tenant, namespace, lesson.made, kind=ExperienceKind.LESSON)
        lesson_draft = replace(draft, task_class=task_class, outcome=lesson.outcome)
        return await self._keep(lesson_draft, is_found=True)

    async def _texts(self, found: Sequence[Experience]) -> list[Source]:
        """Return experiences with their texts; of one that is no text, or large, its summary."""
        if not found:
            return []
        tenant = found[0].tenant
        contents = await self._store.experiences.contents(
            tuple(one.experience_id for one in found), tenant=tenant, bytes_max=_TEXT_BYTES_MAX
        )
        sources: list[Source] = []
        room = _TOKENS_MAX
        for one, content in zip(found, contents, strict=True):
            text = one.summary if content is None else content.decode(errors="replace")
            if tokens_of(text) > room:
                text = one.summary
            room -= tokens_of(text)
            if room < 0:
                break
            sources.append(Source(experience=one, text=text))
        return sources

    async def _head(self, tenant: TenantId) -> int:
        """Return the number of the last entry of a tenant's log."""
        return await self._store.questions.head(tenant)

    def _draft(
        self,
        tenant: TenantId,
        namespace: NamespaceId,
        made: Made,
        *,
        kind: ExperienceKind,
        expires_at_ms: int | None = None,
        said: str = "",
    ) -> Draft:
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


def _first_of(ended: Sequence[EndedSession]) -> Sequence[EndedSession]:
    """Return as many as one round takes, with all that ended in the moment of the last."""
    if len(ended) <= _NEW_MAX:
        return ended
    last_ms = ended[_NEW_MAX - 1].ended_at_ms
    return [one for one in ended if one.ended_at_ms <= last_ms]


def _home_of(made: Made, sources: Sequence[Experience]) -> NamespaceId | None:
    """Return where an answer is kept, so that nobody reads it who may not read its sources.

    That is the namespace that they are all of. There is no other: who may read several may be
    told one day that it may not, and what was written elsewhere would stay with it.
    """
    spaces = {one.namespace for one in sources if one.experience_id in made.sources}
    return spaces.pop() if len(spaces) == 1 else None


def _words_of(text: str) -> tuple[str, ...]:
    return tuple(index_terms(text).split())


def _after(
    night: Night,
    spent: Spent | None,
    *,
    reflected: int = 0,
    answered: int = 0,
    lessons: int = 0,
    linked: int = 0,
) -> Night:
    return replace(
        night,
        reflected=night.reflected + reflected,
        answered=night.answered + answered,
        lessons=night.lessons + lessons,
        linked=night.linked + linked,
        denied=night.denied + (spent is None),
    )
