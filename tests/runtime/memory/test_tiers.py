"""Searches are done as well as is worth it, and which are worth more is learned."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

import pytest

from governor.call import ToolCall, Urgency
from governor.experience.kinds import TrustLane
from governor.experience.search import MemoryTier
from governor.experience.stages import Stage
from governor.experience.tier_choice import Remaining, TierTerms
from governor.ids import NamespaceId
from memory_store.engine import Durability
from memory_store.errors import NotFoundError
from memory_store.memory_choices import What
from memory_store.store import Store, open_store
from runtime.errors import NotBetterError
from runtime.memory.noting.choices import ChoiceNotes
from runtime.memory.ports import Recalled, Said
from runtime.memory.tiers.learning import TierCredit, TierLearner
from runtime.memory.tiers.searching import TieredSearch
from tests.runtime.memory.learning_house import (
    ACME,
    CLOCK,
    call_of,
    kept,
    kept_all,
    namespace_of,
    search_of,
)

pytestmark = pytest.mark.anyio
LONG = "The ferry to Lisbon leaves at nine. " + "It rained on the harbour all day long. " * 30


@dataclass
class Desk:
    """What searches and learns on one store."""

    store: Store
    space: NamespaceId
    explored: float = 0.0
    pays: int | None = None

    def __post_init__(self) -> None:
        """Put it together as a sidecar does."""
        self.notes = ChoiceNotes(self.store.choices)
        self.learner = TierLearner(self.store.choices, clock=CLOCK)
        self.credit = TierCredit(self.store.choices, self.notes)
        self.tiers = TieredSearch(
            self.store.experience_search,
            self.store.experiences,
            self.notes,
            in_force=self.learner,
            clock=CLOCK,
            terms=lambda: TierTerms(explored=self.explored, cost_max_microusd=self.pays),
            dice=Random(5),
        )

    async def search(
        self, text: str, number: int = 0, *, tier: MemoryTier | None = None, **more: Remaining
    ) -> Recalled:
        """Return what is found, and keep the choice."""
        call = call_of("ada", number)
        search = search_of((self.space,), text)
        found = await self.tiers.recalled(call, search, asked=tier, tokens_max=2_000, **more)
        shown = [hit.experience.experience_id for hit in found.found.hits]
        self.tiers.given(call, shown, tokens=100)
        return found


@pytest.fixture
async def desk(begun_state: Path, store_url: str | None) -> AsyncIterator[Desk]:
    async with open_store(begun_state, url=store_url, durability=Durability.PROCESS) as store:
        space = (await namespace_of(store, "agent", owner="ada")).namespace
        days = {
            f"day{number}": f"On day {number} the ferry to Lisbon carried {number * 7} passengers."
            for number in range(30)
        }
        await kept_all(store, space, {**days, "same": days["day3"], "long": LONG})
        yield Desk(store=store, space=space)


@pytest.mark.requirement("memory.tier-forced")
@pytest.mark.requirement("memory.duplicates-named")
async def test_a_higher_tier_shows_more_and_the_same_content_once(desk: Desk) -> None:
    found = {tier: await desk.search("the ferry to Lisbon", tier=tier) for tier in MemoryTier}

    shown = {tier: len(one.found.hits) for tier, one in found.items()}
    assert shown[MemoryTier.LOW] == 3
    assert shown[MemoryTier.MID] == 10
    assert shown[MemoryTier.HIGH] > 10
    for one in found.values():
        addresses = [hit.experience.address for hit in one.found.hits]
        assert len(set(addresses)) == len(addresses)
        assert one.found.left_out > 0


async def test_of_a_long_experience_the_sentences_that_answer_are_shown(desk: Desk) -> None:
    found = await desk.search(
        "it rained on the harbour, the ferry leaves at nine", tier=MemoryTier.HIGH
    )

    (told,) = [text for text in found.texts.values() if "nine" in text]
    assert told.startswith("The ferry to Lisbon leaves at nine.")
    assert len(told) < len(LONG) / 2


@pytest.mark.requirement("memory.tier-degrades")
async def test_a_search_that_is_short_of_time_is_done_and_says_so(desk: Desk) -> None:
    found = await desk.search("ferry", remaining=Remaining(latency_us=1))

    assert (found.plan, found.why) == ("low", "short")
    assert found.found.hits


@pytest.mark.requirement("memory.tiers-safe-default")
async def test_a_house_that_tries_nothing_out_searches_as_usual(desk: Desk) -> None:
    found = [await desk.search("ferry", number) for number in range(5)]

    assert {(one.plan, one.why) for one in found} == {("mid", "rule")}


@pytest.mark.requirement("memory.tiers-learn")
@pytest.mark.requirement("memory.tiers-rolled-back")
async def test_what_was_learned_decides_once_it_is_put_in_force_and_until_it_is_taken_back(
    desk: Desk,
) -> None:
    desk.explored = 0.5
    plans = [(await desk.search("the ferry to Lisbon", number)).plan for number in range(45)]
    await desk.notes.flush()
    for number, plan in enumerate(plans):
        worth = 0.1 if plan.startswith("low") or plan == "mid_few" else 0.95
        # Said of the call itself: what one session is shown again and again is one search here.
        verdict = f"[{worth}, 1.0, true]"
        await desk.store.choices.say(ACME, What.SEARCH, call_of("ada", number).call_id, verdict)

    assert await desk.learner.learn() == 45
    assert await desk.learner.learn() == 0
    report = await desk.learner.report(ACME)
    assert (report.spoken_of, report.in_force) == (45, False)
    values = {one.name: one.quality.value for one in report.values}
    assert values["low"] < values["mid"]

    await desk.learner.promote(ACME, is_forced=True)
    desk.explored = 0.0
    learned = await desk.search("the ferry to Lisbon", 100)
    await desk.learner.roll_back(ACME)
    usual = await desk.search("the ferry to Lisbon", 101)

    assert learned.why == "learned"
    assert not learned.plan.startswith("low")
    assert usual.why == "rule"
    with pytest.raises(NotFoundError):
        await desk.learner.roll_back(ACME)


@pytest.mark.requirement("memory.tiers-logged")
async def test_what_a_reader_says_of_what_it_was_shown_is_said_of_the_search(desk: Desk) -> None:
    found = await desk.search("the ferry to Lisbon")
    index = found.found.hits[0].experience.experience_id

    await desk.credit(call_of("ada", 9), (index,), used=1.0, helpful=0.25)
    await desk.credit(call_of("bob", 9), (index,), used=1.0, helpful=1.0)

    (made,) = (await desk.store.choices.page(ACME, What.SEARCH)).items
    assert made.outcome == "[0.25, 0.5, false]"
    assert made.choice.arm == "mid"
    assert index in made.choice.shown


async def test_without_evidence_nothing_is_promoted(desk: Desk) -> None:
    with pytest.raises(NotBetterError, match="not known"):
        await desk.learner.promote(ACME)


RAIN = "it rained on the harbour, the ferry leaves at nine"


class Model:
    """Says the same of every text, at a price, until it has no more to say."""

    def __init__(self, *said: Said | None) -> None:
        """Take what is said, one after the other."""
        self.left = list(said)
        self.asked: list[tuple[str, str]] = []

    async def __call__(self, call: ToolCall, question: str, text: str) -> Said | None:
        self.asked.append((question, text))
        return self.left.pop(0) if self.left else None


@pytest.mark.requirement("memory.summaries")
async def test_the_best_searches_tell_of_long_texts_in_a_models_words_which_say_so(
    desk: Desk,
) -> None:
    desk.tiers.summariser = model = Model(Said(text="It leaves at nine.", cost_microusd=90))

    found = await desk.search(RAIN, tier=MemoryTier.HIGH)
    usual = await desk.search(RAIN, 1, tier=MemoryTier.MID)

    assert model.asked == [(RAIN, LONG)]
    assert "[in a model's words] It leaves at nine." in found.texts.values()
    assert usual.texts == {}
    assert desk.tiers.prices.measured[Stage.SUMMARISE, MemoryTier.HIGH].cost_microusd.mean == 90


@pytest.mark.requirement("memory.summaries")
@pytest.mark.parametrize("said", [None, Said(text=None, cost_microusd=9)])
async def test_where_a_model_says_nothing_of_use_the_text_tells_of_itself(
    desk: Desk, said: Said | None
) -> None:
    desk.tiers.summariser = Model(said)

    found = await desk.search(RAIN, tier=MemoryTier.HIGH)

    (told,) = [text for text in found.texts.values() if "nine" in text]
    assert told.startswith("The ferry to Lisbon leaves at nine.")


@pytest.mark.requirement("memory.summaries")
async def test_what_instructs_is_never_told_in_a_models_words(desk: Desk) -> None:
    shared = await namespace_of(desk.store, "tenant")
    desk.space = shared.namespace
    await kept(desk.store, shared.namespace, "rule", LONG, lane=TrustLane.OPERATOR)
    desk.tiers.summariser = model = Model(Said(text="Anything.", cost_microusd=1))

    found = await desk.search(RAIN, tier=MemoryTier.HIGH)

    assert len(found.texts) == 1
    assert model.asked == []


@pytest.mark.requirement("memory.tier-degrades")
async def test_a_call_that_is_in_a_hurry_is_searched_as_fast_as_can_be(
    desk: Desk,
) -> None:
    call = replace(call_of("ada"), urgency=Urgency(deadline_ms=1))

    found = await desk.tiers.recalled(
        call, search_of((desk.space,), "ferry"), asked=None, tokens_max=2_000
    )

    assert (found.plan, found.why) == ("low", "short")


@pytest.mark.requirement("memory.tier-degrades")
async def test_a_search_that_may_pay_nothing_asks_no_model(desk: Desk) -> None:
    desk.pays = 0
    desk.tiers.summariser = model = Model(Said(text="It leaves at nine.", cost_microusd=90))

    found = await desk.search(RAIN, tier=MemoryTier.HIGH)

    assert (found.plan, found.why) == ("mid", "short")
    assert model.asked == []
