"""Whose word counts: trusted ones override, weak ones do not add up, a day is bounded."""

from dataclasses import replace

import numpy as np
import pytest

from governor.learning.bandit import Bandit, BanditTerms
from governor.learning.online import (
    NOBODY_SPOKE,
    SPENT_MAX,
    Influence,
    OnlineTerms,
    Rated,
    taught,
)
from governor.learning.verdict import (
    Report,
    Reporter,
    Source,
    Verdict,
    verdict_on,
    weight_of,
)

DAY_MS = 86_400_000
TERMS = OnlineTerms(half_life_hours=336.0, influence_per_day=3.0)
CONTEXT = np.array([1.0, 0.0])


def report(score: float, weight: float = 0.5, *, is_trusted: bool = False) -> Report:
    return Report(score=score, weight=weight, is_trusted=is_trusted)


def rated(number: int, *, score: float = 0.0, weight: float = 0.5, trusted: bool = False) -> Rated:
    return Rated(
        call_id=f"call_{number}",
        agent="coder",
        tier="low",
        context=CONTEXT,
        expected=0.5,
        decided_at_ms=DAY_MS + number,
        verdict=Verdict(score=score, weight=weight, is_trusted=trusted),
        before=None,
    )


def fresh() -> Bandit:
    return Bandit(BanditTerms(dimensions=2, keep=TERMS.keep))


@pytest.mark.requirement("router.feedback-weighed")
def test_a_trusted_word_overrides_all_others() -> None:
    assert verdict_on([report(0.0), report(0.1), report(1.0, 1.0, is_trusted=True)]) == Verdict(
        score=1.0, weight=1.0, is_trusted=True
    )


def test_several_weak_words_are_weighed_and_count_as_the_strongest_of_them() -> None:
    verdict = verdict_on([report(1.0, 0.4), report(0.0, 0.1)])

    assert verdict == Verdict(score=pytest.approx(0.8), weight=0.4, is_trusted=False)


def test_without_a_word_there_is_no_verdict() -> None:
    assert verdict_on([]) is None


@pytest.mark.requirement("router.feedback-weighed")
def test_an_agents_own_word_counts_less_than_tests_and_administrators() -> None:
    for source in Source:
        told = [
            weight_of(source, reporter)
            for reporter in (
                Reporter.RUN,
                Reporter.AGENT,
                Reporter.TRUSTED,
                Reporter.ADMINISTRATOR,
            )
        ]
        assert told == sorted(told)
        assert told[1] <= told[2] / 2
    assert weight_of(Source.TOOL, Reporter.HOUSE) == pytest.approx(0.1)


def test_a_session_counts_so_much_however_many_calls_it_had() -> None:
    weights = [weight_of(Source.TASK, Reporter.AGENT, calls=calls) for calls in (1, 3, 300)]

    assert weights[0] == weights[1] == pytest.approx(0.3)
    assert 300 * weights[2] == pytest.approx(0.9)


@pytest.mark.requirement("router.poisoning-bounded")
def test_an_agent_has_said_enough_for_a_day() -> None:
    lessons = taught(fresh(), {}, NOBODY_SPOKE, [rated(n) for n in range(50)], terms=TERMS)

    assert sum(lessons.counted.values()) == pytest.approx(3.0)
    assert lessons.capped == 44
    assert lessons.bandit.evidence("low") == pytest.approx(3.0)


@pytest.mark.requirement("router.poisoning-bounded")
def test_trusted_words_are_not_counted_and_other_days_are_other_days() -> None:
    spoken = taught(fresh(), {}, NOBODY_SPOKE, [rated(n) for n in range(50)], terms=TERMS)
    more = [
        rated(100, trusted=True, weight=1.0),
        replace(rated(101), decided_at_ms=2 * DAY_MS),
        rated(102),
    ]

    lessons = taught(spoken.bandit, {}, spoken.influence, more, terms=TERMS)

    assert list(lessons.counted.values()) == [1.0, 0.5, 0.0]


def test_what_is_known_of_agents_stays_bounded() -> None:
    influence = Influence()
    for number in range(SPENT_MAX + 500):
        influence = influence.with_spent(f"agent_{number}", 1.0, day=number // 1_000)

    assert len(influence.spent) <= SPENT_MAX


def test_a_second_verdict_takes_the_place_of_the_first() -> None:
    first = rated(1, score=0.0)
    once = taught(fresh(), {}, NOBODY_SPOKE, [first], terms=TERMS)
    changed = replace(
        first,
        verdict=Verdict(score=1.0, weight=1.0, is_trusted=True),
        before=report(0.0, once.counted["call_1"]),
    )

    after = taught(once.bandit, once.watches, once.influence, [changed], terms=TERMS)

    only = taught(fresh(), {}, NOBODY_SPOKE, [replace(changed, before=None)], terms=TERMS)
    found, wanted = (one.bandit.expected(CONTEXT, ["low"]).mean for one in (after, only))
    assert found == pytest.approx(wanted)
    assert after.bandit.evidence("low") == pytest.approx(1.0)


def test_a_tier_that_is_no_longer_what_it_was_is_learned_anew() -> None:
    good = [rated(n, score=1.0, weight=1.0, trusted=True) for n in range(200)]
    bad = [rated(300 + n, score=0.0, weight=1.0, trusted=True) for n in range(60)]
    before = taught(fresh(), {}, NOBODY_SPOKE, good, terms=TERMS)

    after = taught(before.bandit, before.watches, before.influence, bad, terms=TERMS)

    assert after.drifted == ("low",)
    assert after.watches["low"].drifts == 1
    assert float(after.bandit.expected(CONTEXT, ["low"]).mean[0]) < -0.1
