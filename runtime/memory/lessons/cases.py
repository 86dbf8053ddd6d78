"""Cases as they are read: found by likeness, chosen by worth, logged, and learned of."""

import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from governor.call import ToolCall
from governor.experience.cases import (
    CANDIDATES_MAX,
    USUAL_CASES,
    Candidate,
    CaseTerms,
    CaseValues,
    Choice,
    PastReader,
    chosen_from,
    columns_of,
    credit_of,
    read_case,
    task_sketch,
    tasks_alike,
)
from governor.experience.guidance import (
    USUAL_GUIDANCE,
    GuidanceTerms,
    Guided,
    TaskRecord,
    guided_by,
)
from governor.experience.kinds import ExperienceKind
from governor.experience.search import Found, Hit, Search
from governor.ids import ExperienceId, PrincipalId, SessionId, TaskClass, TenantId
from governor.learning.verdict import TRUSTED, Reporter, Source, weight_of
from governor.retrieval.analysis import query_terms
from memory_store.errors import StoreError, VersionConflictError
from memory_store.lessons.cases import CaseModel, CaseOutcome, CaseRead, RatedRead
from runtime.memory.lessons.case_file import packed, unpacked
from tool_gateway import telemetry
from tool_gateway.ports import Clock

logger = logging.getLogger(__name__)
_FOUND_MAX = 32
_DRAWS = 128
_LEARNED_AT_ONCE = 500
_TENANTS_MAX = 256
# How long what was learned elsewhere may stay unknown here.
_MODEL_MS = 5_000
# Before a class has a record, half of its tasks are taken to go well, as if four had ended.
_PRIOR_SHARE, _PRIOR_ENDED = 0.5, 4.0

ClassOf = Callable[[PrincipalId, TaskClass | None], TaskClass]


class Cases(Protocol):
    """Where reads of cases and what is learned of them are kept."""

    async def record(self, reads: tuple[CaseRead, ...]) -> None:
        """Keep reads."""

    async def report(self, outcome: CaseOutcome) -> int:
        """Keep what became of readers."""
        ...

    async def readers_of(
        self, cases: tuple[ExperienceId, ...], *, tenant: TenantId
    ) -> Mapping[ExperienceId, tuple[RatedRead, ...]]:
        """Return the latest readers of cases of whom it is known what became of them."""
        ...

    async def record_of(self, tenant: TenantId, task_class: TaskClass) -> TaskRecord:
        """Return how the latest tasks of a class went."""
        ...

    async def pending(self, *, limit: int) -> tuple[RatedRead, ...]:
        """Return reads that teach something."""
        ...

    async def model(self, tenant: TenantId) -> CaseModel:
        """Return what was learned of a tenant's cases."""
        ...

    async def learn(
        self,
        learned: bytes,
        taught: tuple[RatedRead, ...],
        *,
        tenant: TenantId,
        over: int,
        now_ms: int,
    ) -> int:
        """Keep what was learned."""
        ...


class CaseDesk:
    """Chooses cases for whoever asks for cases, and learns of what became of the readers."""

    def __init__(
        self,
        book: Cases,
        search: Callable[[Search], Awaitable[Found]],
        *,
        clock: Clock,
        class_of: ClassOf,
        dice: np.random.Generator,
        terms: CaseTerms = USUAL_CASES,
        guidance: GuidanceTerms = USUAL_GUIDANCE,
    ) -> None:
        """Take where reads are kept, what finds cases, and what says of which class a task is."""
        self._book = book
        self._search = search
        self._clock = clock
        self._class_of = class_of
        self._dice = dice
        self._terms = terms
        self._guidance = guidance
        self._models: OrderedDict[TenantId, tuple[int, CaseValues]] = OrderedDict()

    async def choose(self, call: ToolCall, search: Search) -> Found:
        """Return the cases that are worth reading, the best first.

        Where nothing is known of their worth because the store does not say, likeness decides.
        """
        kinds = replace(search.filters, kinds=(ExperienceKind.CASE,))
        wide = replace(search, most=max(search.most, _FOUND_MAX), filters=kinds)
        found = await self._search(wide)
        if not found.hits:
            return found
        try:
            return await self._chosen(call, search, found)
        except StoreError as error:
            telemetry.count_failure("cases")
            logger.warning("cases were chosen by likeness alone: %s", error)
            beyond = max(len(found.hits) - search.most, 0)
            return replace(found, hits=found.hits[: search.most], left_out=found.left_out + beyond)

    async def guided(self, agent: PrincipalId, tenant: TenantId, asked: TaskClass | None) -> Guided:
        """Return how closely the next task of an agent is guided, by the record of its class."""
        record = await self._book.record_of(tenant, self._class_of(agent, asked))
        return guided_by(record, terms=self._guidance)

    async def session_ended(
        self, session: SessionId, *, is_success: bool, reporter: Reporter
    ) -> None:
        """Take how a session went for all cases that it read; what fails is counted."""
        await self._reported(
            CaseOutcome(
                session=session,
                score=float(is_success),
                weight=weight_of(Source.TASK, reporter),
                is_trusted=reporter in TRUSTED,
            )
        )

    async def credited(
        self,
        call: ToolCall,
        indices: tuple[ExperienceId, ...],
        *,
        used: float,
        helpful: float | None,
    ) -> None:
        """Take what an agent says of cases that it read; what fails is counted.

        One that it did not use has no part in how it went.
        """
        if helpful is None or used <= 0:
            return
        await self._reported(
            CaseOutcome(
                session=call.chain.session,
                cases=indices,
                score=helpful,
                weight=used * weight_of(Source.TASK, Reporter.AGENT),
                is_trusted=False,
            )
        )

    async def learn(self) -> int:
        """Learn of what was said of readers since; return of how many.

        Raises:
            StoreError: it cannot be kept, and is learned the next time.
        """
        pending = await self._book.pending(limit=_LEARNED_AT_ONCE)
        count = 0
        for tenant in dict.fromkeys(one.about.tenant for one in pending):
            mine = tuple(one for one in pending if one.about.tenant == tenant)
            try:
                await self._learn_of(tenant, mine)
            except VersionConflictError:
                continue  # another sidecar has learned them
            count += len(mine)
        return count

    async def _reported(self, outcome: CaseOutcome) -> None:
        try:
            await self._book.report(outcome)
        except StoreError:
            telemetry.count_failure("cases")

    async def _chosen(self, call: ToolCall, search: Search, found: Found) -> Found:
        chain, now_ms = call.chain, self._clock.now_ms()
        hits = found.hits[:CANDIDATES_MAX]
        task_class = self._class_of(chain.agent, call.task_class)
        sketch = task_sketch(query_terms(search.text))
        ids = tuple(hit.experience.experience_id for hit in hits)
        readers = await self._book.readers_of(ids, tenant=chain.tenant)
        values = await self._values(chain.tenant, now_ms)
        candidates = _candidates(
            hits, readers, task_class=task_class, sketch=sketch, now_ms=now_ms, terms=self._terms
        )
        valued = values.valued(candidates)
        normals = self._dice.standard_normal((_DRAWS, columns_of(len(valued))))
        choice = chosen_from(
            valued,
            values.drawn(valued, normals),
            most=search.most,
            dice=self._dice.random(search.most).tolist(),
            terms=self._terms,
        )
        record = await self._book.record_of(chain.tenant, task_class)
        reads = _reads(
            call, choice, task_class=task_class, sketch=sketch, base=_base(record), now_ms=now_ms
        )
        await self._book.record(reads)
        by_id = {hit.experience.experience_id: hit for hit in hits}
        ordered = sorted(choice.chosen, key=lambda one: -one.valued.gain)
        chosen = tuple(
            replace(by_id[one.valued.candidate.case], score=one.valued.gain) for one in ordered
        )
        beyond = len(found.hits) - len(chosen)
        return replace(found, hits=chosen, left_out=found.left_out + beyond)

    async def _values(self, tenant: TenantId, now_ms: int) -> CaseValues:
        known = self._models.get(tenant)
        if known is None or known[0] + _MODEL_MS <= now_ms:
            model = await self._book.model(tenant)
            known = now_ms, CaseValues(self._terms, unpacked(model.learned, axes=columns_of(0)))
            self._models[tenant] = known
            self._models.move_to_end(tenant)
            while len(self._models) > _TENANTS_MAX:
                self._models.popitem(last=False)
        return known[1]

    async def _learn_of(self, tenant: TenantId, pending: tuple[RatedRead, ...]) -> None:
        model = await self._book.model(tenant)
        values = CaseValues(self._terms, unpacked(model.learned, axes=columns_of(0)))
        for one in pending:
            if one.learned_score is not None and one.learned_weight:
                values.learn(one.about.read, one.learned_score, weight=-one.learned_weight)
            if one.score is not None and one.weight:
                values.learn(one.about.read, one.score, weight=one.weight)
        await self._book.learn(
            packed(values.arms),
            pending,
            tenant=tenant,
            over=model.revision,
            now_ms=self._clock.now_ms(),
        )
        self._models.pop(tenant, None)


def _base(record: TaskRecord) -> float:
    return (_PRIOR_SHARE * _PRIOR_ENDED + record.solved) / (_PRIOR_ENDED + record.ended)


def _candidates(
    hits: Sequence[Hit],
    readers: Mapping[ExperienceId, tuple[RatedRead, ...]],
    *,
    task_class: TaskClass,
    sketch: bytes,
    now_ms: int,
    terms: CaseTerms,
) -> list[Candidate]:
    scores = [hit.score for hit in hits]
    low, high = min(scores), max(scores)
    found: list[Candidate] = []
    for hit in hits:
        one = hit.experience
        # What scores mean differs by search: where they stand between worst and best does not.
        place = (hit.score - low) / (high - low) if high > low else 1.0
        past = [
            _past(read, task_class=task_class, sketch=sketch)
            for read in readers.get(one.experience_id, ())
        ]
        found.append(
            Candidate(
                case=one.experience_id,
                likeness=tasks_alike(sketch, task_sketch(query_terms(one.summary))),
                relative=0.2 + 0.8 * place,
                outcome=one.outcome,
                age_ms=now_ms - one.learned_at_ms,
                is_same_class=one.task_class == task_class,
                credit=credit_of(past, now_ms=now_ms, terms=terms),
            )
        )
    return found


def _past(read: RatedRead, *, task_class: TaskClass, sketch: bytes) -> PastReader:
    about, score = read.about, read.score
    assert score is not None, "only readers are asked for of whom it is known what became of them"
    return PastReader(
        excess=about.read.excess(score),
        weight=about.read.share * read.weight,
        read_at_ms=about.read.read_at_ms,
        is_same_class=about.task_class == task_class,
        likeness=tasks_alike(sketch, about.sketch),
    )


def _reads(
    call: ToolCall,
    choice: Choice,
    *,
    task_class: TaskClass,
    sketch: bytes,
    base: float,
    now_ms: int,
) -> tuple[CaseRead, ...]:
    chain = call.chain
    return tuple(
        CaseRead(
            choice=call.call_id,
            case=one.valued.candidate.case,
            tenant=chain.tenant,
            reader=chain.agent,
            session=chain.session,
            task_class=task_class,
            sketch=sketch,
            slot=slot,
            propensity=one.propensity,
            explored=one.explored,
            read=read_case(one, base=base, of=len(choice.chosen), now_ms=now_ms),
        )
        for slot, one in enumerate(choice.chosen)
    )
