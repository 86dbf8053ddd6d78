"""Searches are done as well as is worth it, and which are worth more is learned."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from governor.experience.search import MemoryTier
from governor.experience.tier_choice import Remaining, TierTerms
from governor.ids import NamespaceId
from memory_store.engine import Durability
from memory_store.errors import NotFoundError
from memory_store.memory_choices import What
from memory_store.store import Store, open_store
from runtime.errors import NotBetterError
from runtime.memory.choice_notes import ChoiceNotes
from runtime.memory.ports import Recalled
from runtime.memory.tier_learning import TierCredit, TierLearner
from runtime.memory.tiers import TieredSearch
from tests.runtime.memory.learning_house import (
    ACME,
    CLOCK,
    call_of,
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
            terms=lambda: TierTerms(explored=self.explored),
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
