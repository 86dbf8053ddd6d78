"""Learning from a real store: late words, another sidecar, damage, and restarts."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from governor.ids import CallId, TierName
from governor.learning.online import OnlineTerms
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.router_models import NewRouterModel
from memory_store.store import Store, open_store
from runtime.clock import SystemClock
from runtime.router.in_force import ModelsInForce
from runtime.router.learned_file import LearnedFileError, packed, unpacked
from runtime.router.learner import Learner
from runtime.router.written import packed as features_packed
from tests.memory_store.router_makers import decision, ends_of, report
from tests.runtime.router.makers import READER, TERMS, known_unpack

pytestmark = pytest.mark.anyio

ROOT = Actor(name="root")
FEATURES = features_packed(READER.read("Why 1?"), meaning_axes=READER.widths.meaning)
CONTEXT = np.array([1.0, np.log(2), np.log(2)])


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Learning:
    """A learner on a store."""

    store: Store
    models: ModelsInForce
    learner: Learner

    async def promote(self, version: str = "abc", content: bytes | None = None) -> None:
        model = NewRouterModel(
            version=version,
            content=json.dumps({"low": 0.5, "high": 0.9}).encode() if content is None else content,
            checksum=version,
            parent=None,
            learned_until_ms=0,
            evidence="{}",
        )
        shelf = self.store.router_shelf
        await shelf.add(model, by=ROOT, now_ms=1)
        revision = (await shelf.standing()).revision
        await shelf.promote(version, expected_revision=revision, by=ROOT, now_ms=2)
        await self.models.refresh()

    async def rate(self, name: str, score: float, *, at_ms: int = 1_000) -> None:
        log = self.store.router_log
        made = decision(name, at_ms=at_ms, features=FEATURES, tier=TierName("high"))
        await log.record((made,), ends_of((made,)), ())
        await log.report((report(name, score, weight=1.0, is_trusted=True),))

    def beyond(self, tier: str = "high") -> float:
        learned = self.models.now.learned
        assert learned is not None
        return float(learned.bandit.expected(CONTEXT, [tier]).mean[0])


def learning(store: Store, *, terms: OnlineTerms = TERMS.online) -> Learning:
    models = ModelsInForce(
        store.router_shelf, unpack=known_unpack(), terms=lambda: terms, has_shadow=lambda: True
    )
    learner = Learner(
        store.router_log, store.router_shelf, models, clock=SystemClock(), terms=lambda: terms
    )
    return Learning(store, models, learner)


@pytest.fixture
async def made(begun_state: Path) -> AsyncIterator[Learning]:
    async with open_store(begun_state, durability=Durability.PROCESS) as store:
        yield learning(store)


async def test_nothing_is_learned_before_there_is_a_model(made: Learning) -> None:
    await made.rate("1", 0.0)

    assert await made.learner.learn() == 0


@pytest.mark.requirement("router.late-feedback")
async def test_what_calls_were_worth_is_learned_once_whatever_the_order(
    made: Learning, tmp_path: Path
) -> None:
    await made.promote()
    for number in range(12):
        await made.rate(str(number), 0.1, at_ms=1_000 + number * 7_200_000)
    assert await made.learner.learn() == 12
    assert await made.learner.learn() == 0

    async with open_store(tmp_path / "other", durability=Durability.PROCESS) as store:
        other = learning(store)
        await other.promote()
        for number in (7, 3, 11, 0, 5, 1, 10, 2, 9, 4, 8, 6):
            await other.rate(str(number), 0.1, at_ms=1_000 + number * 7_200_000)
            await other.learner.learn()

        assert made.beyond() < -0.2
        assert other.beyond() == pytest.approx(made.beyond(), abs=1e-9)


async def test_a_second_word_takes_the_place_of_the_first(made: Learning) -> None:
    await made.promote()
    await made.rate("1", 0.0)
    await made.learner.learn()
    wrong = made.beyond()
    await made.store.router_log.report((report("1", 0.9, weight=1.0, is_trusted=True),))

    await made.learner.learn()

    assert wrong < -0.05
    assert made.beyond() == pytest.approx(0.0, abs=1e-9)


async def test_what_was_learned_is_known_after_a_restart_and_to_others(made: Learning) -> None:
    await made.promote()
    await made.rate("1", 0.0)
    await made.learner.learn()

    other = learning(made.store)
    await other.models.refresh()

    assert other.beyond() == pytest.approx(made.beyond())


async def test_another_half_life_holds_from_the_next_look_on(made: Learning) -> None:
    terms = TERMS.online
    models = ModelsInForce(
        made.store.router_shelf,
        unpack=known_unpack(),
        terms=lambda: terms,
        has_shadow=lambda: True,
    )
    await made.promote()
    await made.rate("1", 0.0)
    await made.learner.learn()
    before = await models.refresh()

    terms = replace(terms, half_life_hours=1.0)
    after = await models.refresh()

    assert before.learned is not None
    assert after.learned is not None
    assert before.learned.bandit.terms.keep == TERMS.online.keep
    assert after.learned.bandit.terms.keep == 0.5
    assert after.learned.bandit.evidence("high") == before.learned.bandit.evidence("high") > 0


async def test_of_two_that_learn_at_once_one_is_believed(made: Learning) -> None:
    await made.promote()
    other = learning(made.store)
    await other.models.refresh()
    await made.rate("1", 0.0)
    await made.learner.learn()

    # It has not seen yet what the first one learned.
    await made.rate("2", 0.0)
    await other.learner.learn()
    await other.learner.learn()
    await made.models.refresh()

    learned = made.models.now.learned
    assert learned is not None
    assert learned.bandit.evidence("high") == pytest.approx(2.0)


async def test_another_model_begins_with_what_was_rated_since_it_was_trained(
    made: Learning,
) -> None:
    await made.promote()
    await made.rate("1", 0.1)
    await made.learner.learn()
    before = made.beyond()

    await made.promote("def", json.dumps({"low": 0.5, "high": 0.1}).encode())
    fresh = made.beyond()
    await made.learner.learn()

    assert before < -0.05
    assert fresh == 0.0
    assert made.beyond() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.requirement("router.safe-default")
async def test_a_damaged_model_is_told_once_and_the_rules_decide(
    made: Learning, caplog: pytest.LogCaptureFixture
) -> None:
    await made.promote(content=b"nonsense")

    for _ in range(3):
        await made.models.refresh()

    assert made.models.now.incumbent is None
    assert caplog.text.count("the tier rules decide") == 1
    assert await made.learner.learn() == 0


async def test_what_was_learned_and_got_damaged_begins_anew(made: Learning) -> None:
    await made.promote()
    await made.rate("1", 0.0)
    await made.learner.learn()
    learned = made.models.now.learned
    assert learned is not None
    content = packed(learned)

    for damaged in (content[:-1], b"", content[:40] + b"x" + content[41:]):
        with pytest.raises(LearnedFileError):
            unpacked(damaged, terms=learned.bandit.terms, model="abc")
    with pytest.raises(LearnedFileError):
        unpacked(content, terms=learned.bandit.terms, model="other")
    again = unpacked(content, terms=learned.bandit.terms, model="abc")
    assert again.influence == learned.influence
    assert again.watches == learned.watches


async def test_features_that_cannot_be_read_are_passed_over(made: Learning) -> None:
    await made.promote()
    bad = decision("bad", features=b"?")
    await made.store.router_log.record((bad,), ends_of((bad,)), ())
    await made.store.router_log.report((report("bad", 0.0),))

    assert await made.learner.learn() == 1
    assert await made.learner.learn() == 0


@pytest.mark.requirement("router.poisoning-bounded")
async def test_a_poisoned_agent_moves_little_and_an_honest_harness_all(made: Learning) -> None:
    terms = replace(TERMS.online, influence_per_day=5.0)
    poisoned = learning(made.store, terms=terms)
    await poisoned.promote()
    log = made.store.router_log
    names = [str(number) for number in range(200)]
    decisions = tuple(decision(n, features=FEATURES, tier=TierName("high")) for n in names)
    await log.record(decisions, ends_of(decisions), ())
    await log.report(tuple(report(name, 0.0, weight=0.5) for name in names))
    while await poisoned.learner.learn():
        pass
    lied = poisoned.beyond()

    await log.report(
        tuple(report(n, 0.0, weight=1.0, is_trusted=True, reported_by="admin:root") for n in names)
    )
    while await poisoned.learner.learn():
        pass

    learned = poisoned.models.now.learned
    assert learned is not None
    assert -0.75 < lied < 0.0
    assert learned.capped >= 190
    assert poisoned.beyond() < lied
    assert learned.bandit.evidence("high") == pytest.approx(200.0)
    assert CallId("call_1") in {
        one.decision.call_id for one in await log.rated(since_ms=0, limit=300)
    }
