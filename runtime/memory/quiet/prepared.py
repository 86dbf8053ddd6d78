"""Searches that are answered by what was made beforehand, and noted where they are not."""

import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from governor.experience.chain import LogEntry, LogEvent
from governor.experience.experience import Experience
from governor.experience.kinds import ExperienceKind, Standing
from governor.experience.quiet import PREPARED, question_of, speaks_of
from governor.experience.search import Found, Hit, Search
from governor.ids import ExperienceId, TenantId
from governor.retrieval.analysis import query_terms
from memory_store.errors import ExperienceNotFoundError, StoreError
from memory_store.lessons.questions import Prepared, Question
from runtime.memory.ports import Searching
from tool_gateway import telemetry

logger = logging.getLogger(__name__)
# What changed since an answer was made is looked at; of more, the search is faster.
_CHANGES_MAX = 64
_WORDS_CHARS_MAX = 2_000
# A reader would have got no more than this of what was found.
_READ_TOKENS_MAX = 2_000
_WAITING_MAX = 1_000


class Questions(Protocol):
    """Where recurring questions are kept."""

    async def note(self, questions: tuple[Question, ...]) -> None:
        """Count that questions were asked."""

    async def prepared(self, tenant: TenantId, question: str) -> Prepared | None:
        """Return the answer that was made beforehand."""
        ...

    async def served(self, tenant: TenantId, question: str, *, saved: int, now_ms: int) -> None:
        """Count that an answer was handed out instead of a search."""

    async def drop(self, tenant: TenantId, question: str) -> None:
        """Forget the answer to a question."""


class Experiences(Protocol):
    """What an answer was made of, and what happened since."""

    async def get(
        self, ids: tuple[ExperienceId, ...], *, tenant: TenantId, now_ms: int | None = None
    ) -> tuple[Experience, ...]:
        """Return the experiences of those ids."""
        ...

    async def log_since(
        self, tenant: TenantId, *, number: int, most: int = 1_000
    ) -> tuple[LogEntry, ...]:
        """Return what was logged after that number."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Served:
    tenant: TenantId
    question: str
    saved: int
    at_ms: int


class PreparedSearching:
    """Finds as the searching below it does, but for what it has the answer to."""

    def __init__(self, below: Searching, questions: Questions, experiences: Experiences) -> None:
        """Take who searches, and where questions and experiences are."""
        self._below = below
        self._questions = questions
        self._experiences = experiences
        # Written beside the answers: nobody waits for it.
        self._asked: deque[Question] = deque(maxlen=_WAITING_MAX)
        self._served: deque[_Served] = deque(maxlen=_WAITING_MAX)

    async def flush(self) -> None:
        """Write what was asked and served; what the store does not take is lost, and counted."""
        asked, served = tuple(self._asked), tuple(self._served)
        self._asked.clear()
        self._served.clear()
        try:
            await self._questions.note(asked)
            for one in served:
                await self._questions.served(
                    one.tenant, one.question, saved=one.saved, now_ms=one.at_ms
                )
        except StoreError:
            telemetry.count_failure("prepared_answers")

    async def search(self, search: Search) -> Found:
        """Return what is found, or the one answer that was made of it beforehand.

        Whatever fails about prepared answers is counted, and the search is done.
        """
        if not is_recurring_kind(search):
            return await self._below.search(search)
        question = named(search)
        try:
            found = await self._prepared(search, question)
        except StoreError as error:
            telemetry.count_failure("prepared_answers")
            logger.warning("a prepared answer could not be looked up: %s", error)
            found = None
        if found is not None:
            return found
        found = await self._below.search(search)
        self._note(search, question, found)
        return found

    async def _prepared(self, search: Search, question: str) -> Found | None:
        prepared = await self._questions.prepared(search.tenant, question)
        if prepared is None:
            return None
        answer = await self._standing(search, prepared)
        if answer is None:
            telemetry.count_prepared("outdated")
            await self._questions.drop(search.tenant, question)
            return None
        saved = max(0, min(prepared.searched_tokens, _READ_TOKENS_MAX) - answer.tokens)
        telemetry.count_prepared("served", saved=saved)
        self._served.append(
            _Served(tenant=search.tenant, question=question, saved=saved, at_ms=search.now_ms)
        )
        return Found(hits=(Hit(experience=answer, score=1.0),), left_out=len(prepared.sources))

    async def _standing(self, search: Search, prepared: Prepared) -> Experience | None:
        """Return the answer if it still holds: nothing that it is made of, or about, changed."""
        try:
            (answer, *sources) = await self._experiences.get(
                (prepared.answer, *prepared.sources), tenant=search.tenant, now_ms=search.now_ms
            )
        except ExperienceNotFoundError:
            return None
        if any(one.standing is not Standing.ACTIVE for one in (answer, *sources)):
            return None
        if answer.namespace not in search.namespaces or answer.lane not in search.filters.lanes:
            return None
        changes = await self._experiences.log_since(
            search.tenant, number=prepared.head, most=_CHANGES_MAX + 1
        )
        if len(changes) > _CHANGES_MAX:
            return None
        return None if await self._touches(search, prepared, changes) else answer

    async def _touches(
        self, search: Search, prepared: Prepared, changes: Sequence[LogEntry]
    ) -> bool:
        """Tell whether what was logged since may change an answer."""
        asked = query_terms(search.text)
        for entry in changes:
            if entry.experience_id == prepared.answer or entry.namespace not in search.namespaces:
                continue
            if entry.event is not LogEvent.WRITTEN or entry.experience_id in prepared.sources:
                return True
            try:
                (new,) = await self._experiences.get((entry.experience_id,), tenant=search.tenant)
            except ExperienceNotFoundError:
                return True
            if PREPARED not in new.tags and speaks_of(asked, query_terms(new.summary)):
                return True
        return False

    def _note(self, search: Search, question: str, found: Found) -> None:
        tokens = sum(hit.experience.tokens for hit in found.hits)
        if not tokens:
            return
        self._asked.append(
            Question(
                tenant=search.tenant,
                question=question,
                words=search.text[:_WORDS_CHARS_MAX],
                namespaces=search.namespaces,
                filters=msgspec.json.encode(search.filters).decode(),
                tokens=min(tokens, _READ_TOKENS_MAX),
                asked_at_ms=search.now_ms,
            )
        )


def is_recurring_kind(search: Search) -> bool:
    """Tell whether the same answer can serve the same question again.

    Not of one session or one time, which are never asked for again, nor of cases, which are
    chosen by worth.
    """
    filters = search.filters
    times = (filters.at_ms, filters.learned_from_ms, filters.learned_before_ms)
    return (
        filters.session is None
        and all(one is None for one in times)
        and ExperienceKind.CASE not in filters.kinds
        and (not filters.kinds or ExperienceKind.FACT in filters.kinds)
        and not filters.actors
        and not filters.tags
        and bool(query_terms(search.text))
        and len(search.text) <= _WORDS_CHARS_MAX
    )


def named(search: Search) -> str:
    """Return the name of a search as a question."""
    return question_of(
        query_terms(search.text),
        namespaces=search.namespaces,
        filters=msgspec.json.encode(search.filters).decode(),
        most=search.most,
    )
