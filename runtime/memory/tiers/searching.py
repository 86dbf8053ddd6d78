"""Searches experiences as well as is worth it: by a plan that is chosen for each question."""

import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from governor.call import ToolCall
from governor.experience.experience import Experience
from governor.experience.kinds import LANES_BY_TRUST
from governor.experience.passages import Passage, sentences_for
from governor.experience.recall import (
    Ordered,
    around,
    asks_again,
    expanded_of,
    ordered,
    pool_of,
    reads_words,
    with_surroundings,
    words_again,
)
from governor.experience.search import Found, Hit, MemoryTier, Search
from governor.experience.stages import (
    PLANS,
    UNMEASURED,
    Plan,
    Price,
    Stage,
    StagePrices,
)
from governor.experience.tier_choice import (
    NOT_PROBED,
    PROBED_MAX,
    PlanChoice,
    Remaining,
    SearchProfile,
    TierTerms,
    chosen,
    context_of,
    probe_of,
)
from governor.ids import ExperienceId, TenantId
from governor.learning.bandit import Bandit
from governor.retrieval.analysis import Trait, index_terms, query_terms, traits_of
from memory_store.errors import ExperienceCorruptError, ExperienceNotFoundError
from memory_store.experiences.values import Dereferenced
from memory_store.memory_choices import MemoryChoice, What
from runtime.memory.indexing import text_of
from runtime.memory.noting.choices import ChoiceNotes, numbers_bytes, options_text
from runtime.memory.ports import Recalled, Said, Searching
from tool_gateway.ports import Clock

POOL_MAX = 120
_BY_MODEL = "[in a model's words] "
# Of the best so many a model is asked; of the rest the text's own sentences are shown.
_SUMMARIES_MAX = 3
# What is shown of one experience where a plan takes its sentences.
SENTENCE_TOKENS = 96
# A longer content is not cut into sentences: its stored summary stands for it.
_SENTENCES_BYTES_MAX = 128 * 1024
_OPEN_MAX = 2_000
_DRAWS = 64


class Book(Protocol):
    """What experiences stand beside one another, and what is in them."""

    async def neighbours(
        self, experience_id: ExperienceId, *, tenant: TenantId, before: int = 1, after: int = 1
    ) -> tuple[Experience, ...]:
        """Return what its session wrote before and after an experience, without itself."""
        ...

    async def content(self, experience_id: ExperienceId, *, tenant: TenantId) -> Dereferenced:
        """Return a content that proved intact."""
        ...


class InForce(Protocol):
    """What was learned of a tenant's searches, where that is in force."""

    async def learned_of(self, tenant: TenantId) -> Bandit | None:
        """Return it, None while nothing that was learned is in force."""
        ...


Summariser = Callable[[ToolCall, str, str], Awaitable[Said | None]]
"""Returns, through a model, what a text says to a question; None where nobody was asked."""


@dataclass(slots=True, kw_only=True)
class _Pool:
    """The experiences that came up in a search, by their numbers, and how many more there are."""

    experiences: dict[int, Experience] = field(default_factory=dict)
    left_out: int = 0

    def passages(self, hits: Sequence[Hit], *, worded: int) -> list[Passage]:
        """Return hits as passages, so many of them with the words that they are indexed by."""
        found = []
        for at, hit in enumerate(hits):
            self.experiences[hit.experience.number] = hit.experience
            found.append(_passage(hit.experience, hit.score, with_words=at < worded))
        return found


class TieredSearch:
    """Chooses a plan for each search, follows it, and keeps what it chose."""

    def __init__(
        self,
        searching: Searching,
        book: Book,
        notes: ChoiceNotes,
        *,
        in_force: InForce,
        clock: Clock,
        terms: Callable[[], TierTerms] = TierTerms,
        summariser: Summariser | None = None,
        dice: random.Random | None = None,
    ) -> None:
        """Take where experiences are found; without a `summariser` no plan asks a model."""
        self._searching, self._book, self._notes = searching, book, notes
        self._in_force, self._clock, self._terms = in_force, clock, terms
        self.summariser = summariser
        self._dice = random.Random() if dice is None else dice  # noqa: S311 - what to try out
        self._normals = np.random.default_rng(self._dice.getrandbits(64))
        self._open: OrderedDict[str, MemoryChoice] = OrderedDict()
        self.prices: StagePrices = UNMEASURED

    async def recalled(
        self,
        call: ToolCall,
        search: Search,
        *,
        asked: MemoryTier | None,
        tokens_max: int,
        remaining: Remaining | None = None,
    ) -> Recalled:
        """Return what a plan finds; the choice is kept once `given` says what was shown.

        Without `remaining` the hurry of the call and the terms are its bounds.
        """
        if remaining is None:
            remaining = self._remaining(call, tokens_max=tokens_max)
        began = time.perf_counter_ns()
        pool = _Pool()
        words = query_terms(search.text)
        learned = None if asked is not None else await self._in_force.learned_of(search.tenant)
        probed: list[Passage] | None = None
        # Where nothing is learned and nothing is tried out, nobody would look at what it tells.
        if asked is None and (learned is not None or self._terms().explored > 0):
            probed = await self._found(
                pool, search, PLANS["low_usual"], Stage.RETRIEVE, worded=PROBED_MAX
            )
        question = _question(search, words, probed, tokens_max=tokens_max)
        choice = self._chosen(question, learned, asked=asked, remaining=remaining)
        plan = choice.plan
        worded = POOL_MAX if reads_words(plan) else 0
        first = probed if plan.retrieve is MemoryTier.LOW and not worded else None
        if first is None:
            first = await self._found(pool, search, plan, Stage.RETRIEVE, worded=worded)
        again: list[Passage] = []
        if asks_again(plan) and (further := words_again(words, first)):
            second = replace(search, text=" ".join((search.text, *further)))
            again = await self._found(pool, second, plan, None, worded=worded)
        order = self._ordered(plan, words, first, again, most=search.most)
        passages = await self._expanded(pool, search, plan, order)
        texts = await self._told(call, search, plan, [pool.experiences[p.number] for p in passages])
        took_us = (time.perf_counter_ns() - began) // 1_000
        self._begin(call, search, question, choice, latency_us=took_us)
        hits = [Hit(experience=pool.experiences[p.number], score=p.score) for p in passages]
        left_out = pool.left_out + len(order.beyond) + len(order.left)
        return Recalled(
            found=Found(hits=tuple(hits), left_out=left_out),
            plan=plan.name,
            why=choice.why.value,
            texts=texts,
        )

    def given(self, call: ToolCall, indices: Sequence[ExperienceId], *, tokens: int) -> None:
        """Keep the choice that was made for a call, with what was shown by it."""
        choice = self._open.pop(call.call_id, None)
        if choice is None:
            return
        paid = Price(latency_us=float(choice.latency_us), cost_microusd=choice.cost_microusd)
        cost = round(self._terms().costs(paid, tokens=tokens))
        self._notes.note(replace(choice, shown=tuple(indices), tokens=tokens, cost_microusd=cost))

    def _remaining(self, call: ToolCall, *, tokens_max: int) -> Remaining:
        """Return what a search may take; its tokens were cut to what budgets have left before."""
        # Whoever waits no longer than this for its start is in that much of a hurry.
        hurry_ms = call.urgency.deadline_ms
        return Remaining(
            tokens=tokens_max,
            latency_us=None if hurry_ms is None else hurry_ms * 1_000,
            cost_microusd=self._terms().cost_max_microusd,
        )

    def _chosen(
        self,
        question: SearchProfile,
        learned: Bandit | None,
        *,
        asked: MemoryTier | None,
        remaining: Remaining,
    ) -> PlanChoice:
        return chosen(
            question,
            asked=asked,
            remaining=remaining,
            prices=self.prices,
            learned=learned,
            terms=self._terms(),
            dice=self._dice.random(),
            normals=self._normals.standard_normal((_DRAWS, len(PLANS))),
            has_model=self.summariser is not None,
        )

    async def _found(
        self, pool: _Pool, search: Search, plan: Plan, stage: Stage | None, *, worded: int
    ) -> list[Passage]:
        """Return what a search finds at the tiers of a plan, so many with their words."""
        began = time.perf_counter_ns()
        is_low = plan.rerank is MemoryTier.LOW
        wide = replace(
            search,
            most=min(POOL_MAX, pool_of(plan, search.most)),
            tier=MemoryTier.LOW if is_low else MemoryTier.MID,
            use_vectors=search.use_vectors and plan.retrieve is not MemoryTier.LOW,
        )
        answer = await self._searching.search(wide)
        pool.left_out = answer.left_out
        found = pool.passages(answer.hits, worded=worded)
        if stage is not None:
            self._measured(stage, plan, began)
        return found

    def _ordered(
        self,
        plan: Plan,
        words: tuple[str, ...],
        first: Sequence[Passage],
        again: Sequence[Passage],
        *,
        most: int,
    ) -> Ordered:
        began = time.perf_counter_ns()
        order = ordered(plan, words, first, again=again, most=most)
        self._measured(Stage.RERANK, plan, began)
        return order

    async def _expanded(
        self, pool: _Pool, search: Search, plan: Plan, order: Ordered
    ) -> tuple[Passage, ...]:
        """Return the passages with what stands around the best of them and may be found too."""
        wanted = expanded_of(plan, order)
        if not wanted:
            return order.passages
        began, steps = time.perf_counter_ns(), around(plan)
        surroundings: dict[int, list[Passage]] = {}
        for passage in wanted:
            index = pool.experiences[passage.number].experience_id
            try:
                near = await self._book.neighbours(
                    index, tenant=search.tenant, before=steps, after=steps
                )
            except ExperienceNotFoundError:
                continue  # erased meanwhile
            # Whatever stands beside it must be what this search could have found by itself.
            hits = [Hit(experience=one, score=0.0) for one in near if search.finds(one)]
            surroundings[passage.number] = pool.passages(hits, worded=0)
        shown = with_surroundings(order, surroundings)
        before, after = (sum(one.tokens for one in them) for them in (order.passages, shown))
        self._measured(Stage.EXPAND, plan, began, token_share=after / max(1, before))
        return shown

    async def _told(
        self, call: ToolCall, search: Search, plan: Plan, found: Sequence[Experience]
    ) -> dict[ExperienceId, str]:
        """Return what to show of the longer ones, in the words that they have themselves."""
        if plan.summarise is MemoryTier.LOW:
            return {}
        began, cost = time.perf_counter_ns(), 0
        told: dict[ExperienceId, str] = {}
        left = _SUMMARIES_MAX if plan.summarise is MemoryTier.HIGH else 0
        for one in found:
            if not one.tokens > SENTENCE_TOKENS or one.size_bytes > _SENTENCES_BYTES_MAX:
                continue
            text = await self._text(search.tenant, one.experience_id)
            if text is None:
                continue
            told[one.experience_id] = _sentences(search.text, text)
            # A model's words are nobody's instruction: what instructs is told in its own.
            if not left or self.summariser is None or one.lane.instructs:
                continue
            said = await self.summariser(call, search.text, text)
            # Where nobody answers, the rest is not waited for either.
            left = 0 if said is None else left - 1
            if said is not None:
                cost += said.cost_microusd
                if said.text is not None:
                    told[one.experience_id] = f"{_BY_MODEL}{said.text}"
        self._measured(Stage.SUMMARISE, plan, began, cost_microusd=cost)
        return told

    async def _text(self, tenant: TenantId, index: ExperienceId) -> str | None:
        try:
            found = await self._book.content(index, tenant=tenant)
        except (ExperienceNotFoundError, ExperienceCorruptError):
            return None  # its summary stands; whoever reads it is told what is wrong
        return text_of(found.content)

    def _measured(
        self,
        stage: Stage,
        plan: Plan,
        began: int,
        *,
        token_share: float | None = None,
        cost_microusd: int = 0,
    ) -> None:
        tier = plan.tier_of(stage)
        latency_us = (time.perf_counter_ns() - began) / 1_000
        price = Price(latency_us=latency_us, cost_microusd=float(cost_microusd))
        if token_share is not None:
            price = replace(price, token_share=token_share)
        self.prices = self.prices.noted(stage, tier, price)

    def _begin(
        self,
        call: ToolCall,
        search: Search,
        question: SearchProfile,
        choice: PlanChoice,
        *,
        latency_us: int,
    ) -> None:
        price = self.prices.of(choice.plan)
        chain = call.chain
        self._open[call.call_id] = MemoryChoice(
            tenant=search.tenant,
            what=What.SEARCH,
            key=call.call_id,
            agent=chain.agent,
            session=chain.session,
            decided_at_ms=self._clock.now_ms(),
            arm=choice.plan.name,
            propensity=choice.propensity,
            explored=choice.why.value == "explored",
            options=options_text(
                choice.chances,
                {name: option.cost_microusd for name, option in choice.expected.items()},
            ),
            context=numbers_bytes(context_of(question)),
            price=choice.price,
            latency_us=latency_us,
            cost_microusd=round(price.cost_microusd),
        )
        while len(self._open) > _OPEN_MAX:
            self._open.popitem(last=False)


def _sentences(question: str, text: str) -> str:
    return sentences_for(
        text,
        query_terms(question),
        lambda part: tuple(index_terms(part).split()),
        tokens_max=SENTENCE_TOKENS,
    )


def _question(
    search: Search, words: tuple[str, ...], probed: Sequence[Passage] | None, *, tokens_max: int
) -> SearchProfile:
    traits = traits_of(search.text)
    tokens = tokens_max
    if probed:
        usual = sum(one.tokens for one in probed) / len(probed)
        tokens = round(min(usual * search.most, tokens_max))
    return SearchProfile(
        words=tuple(search.text.lower().replace("?", " ").split()),
        has_number=bool(traits & Trait.NUMBER),
        has_time=bool(traits & Trait.ASKS_WHEN),
        items=len(probed or ()),
        tokens=tokens,
        tokens_max=tokens_max,
        has_vectors=search.use_vectors,
        probe=NOT_PROBED if probed is None else probe_of(words, probed),
    )


def _passage(one: Experience, score: float, *, with_words: bool) -> Passage:
    return Passage(
        number=one.number,
        score=score,
        address=one.address,
        words=tuple(index_terms(one.summary).split()) if with_words else (),
        tokens=one.tokens,
        origin=f"{one.provenance.writer}\0{one.lane.value}",
        trust=LANES_BY_TRUST.index(one.lane),
        session=one.session or "",
    )
