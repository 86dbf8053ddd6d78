"""Cases by what reading them was worth: learning, taking back, choosing, and its chances."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.experience.cases import (
    USUAL_CASES,
    Candidate,
    CaseSign,
    CaseTerms,
    CaseValues,
    Choice,
    PastReader,
    ReadCase,
    chosen_from,
    columns_of,
    credit_of,
    expected_outcome,
    read_case,
    sign_of,
)
from governor.ids import ExperienceId

_HOUR_MS = 3_600_000


def candidate(name: str, *, likeness: float = 0.5, outcome: float | None = 1.0) -> Candidate:
    return Candidate(
        case=ExperienceId(f"exp_{name}"),
        likeness=likeness,
        relative=likeness,
        outcome=outcome,
        age_ms=0,
        is_same_class=True,
    )


def choose(
    values: CaseValues,
    candidates: list[Candidate],
    *,
    most: int = 2,
    seed: int = 0,
    terms: CaseTerms = USUAL_CASES,
) -> Choice:
    chance = np.random.default_rng(seed)
    valued = values.valued(candidates)
    drawn = values.drawn(valued, chance.standard_normal((200, columns_of(len(valued)))))
    return chosen_from(valued, drawn, most=most, dice=chance.random(most).tolist(), terms=terms)


def reader(excess: float, *, at_hours: int = 0, likeness: float = 1.0) -> PastReader:
    return PastReader(
        excess=excess,
        weight=1.0,
        read_at_ms=at_hours * _HOUR_MS,
        is_same_class=True,
        likeness=likeness,
    )


@pytest.mark.requirement("cases.by-value")
def test_a_case_whose_readers_fail_gives_way_to_one_that_is_less_alike() -> None:
    values = CaseValues()
    alike, other = candidate("alike", likeness=0.9), candidate("other", likeness=0.5)
    failed = credit_of([reader(-0.5)] * 12, now_ms=0)
    worked = credit_of([reader(0.4)] * 12, now_ms=0)

    before = choose(values, [alike, other], most=1)
    after = choose(values, [replace(alike, credit=failed), replace(other, credit=worked)], most=1)

    assert before.chosen[0].valued.candidate.case == "exp_alike"
    assert after.chosen[0].valued.candidate.case == "exp_other"
    assert after.harmful == 1


@pytest.mark.requirement("cases.by-value")
def test_what_reading_was_worth_is_learned_of_traits_and_so_of_cases_that_nobody_read() -> None:
    values = CaseValues()
    pair = [candidate("won", outcome=1.0), candidate("lost", outcome=0.0)]
    for hour in range(400):
        for valued in values.valued(pair):
            outcome = 0.9 if valued.candidate.sign is CaseSign.NEGATIVE else 0.1
            read = read_case_of(valued.features, base=0.5, at_ms=hour * _HOUR_MS)
            values.learn(read, outcome)

    new_won, new_lost = values.valued([candidate("a"), candidate("b", outcome=0.0)])

    assert new_lost.gain > 0.2 > -0.2 > new_won.gain


def read_case_of(features: tuple[float, ...], *, base: float, at_ms: int = 0) -> ReadCase:
    return ReadCase(features=features, base=base, linear=0.0, own=0.0, share=1.0, read_at_ms=at_ms)


@given(
    outcomes=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 500)), min_size=1, max_size=12),
    order=st.randoms(use_true_random=False),
)
def test_lessons_may_come_in_any_order_and_be_taken_back(
    outcomes: list[tuple[float, int]], order: object
) -> None:
    pair = [candidate("a", likeness=0.2), candidate("b", likeness=0.9)]
    features = [one.features for one in CaseValues().valued(pair)]
    reads = [
        (read_case_of(features[n % 2], base=0.4, at_ms=hour * _HOUR_MS), outcome)
        for n, (outcome, hour) in enumerate(outcomes)
    ]
    shuffled = list(reads)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    wrong = read_case_of(features[0], base=0.4, at_ms=0)

    one, other = CaseValues(), CaseValues()
    for read, outcome in reads:
        one.learn(read, outcome)
    other.learn(wrong, 1.0)
    for read, outcome in shuffled:
        other.learn(read, outcome)
    other.learn(wrong, 1.0, weight=-1.0)

    gains = [[v.gain for v in values.valued(pair)] for values in (one, other)]
    assert gains[0] == pytest.approx(gains[1], abs=1e-6)


def test_readers_count_less_the_longer_ago_and_the_less_alike_their_task() -> None:
    terms = CaseTerms(half_life_hours=10.0)
    fresh = credit_of([reader(0.5, at_hours=20)], now_ms=20 * _HOUR_MS, terms=terms)
    old = credit_of([reader(0.5)], now_ms=20 * _HOUR_MS, terms=terms)
    unlike = credit_of([reader(0.5, likeness=0.5)], now_ms=0, terms=terms)
    elsewhere = credit_of([replace(reader(0.5), is_same_class=False)], now_ms=0, terms=terms)

    assert fresh.weight == pytest.approx(1.0)
    assert old.weight == pytest.approx(0.25)
    assert unlike.weight == pytest.approx(0.25)
    assert elsewhere.weight == pytest.approx(terms.elsewhere_share)


@pytest.mark.requirement("cases.both-signs")
def test_a_case_that_went_wrong_is_told_beside_those_that_went_well_where_that_is_cheap() -> None:
    cases = [candidate(str(n), likeness=0.8 - n / 100) for n in range(4)]
    cases += [candidate("lost", likeness=0.75, outcome=0.0)]
    terms = CaseTerms(contrast=0.2)

    signs = [
        {one.sign for one in choose(CaseValues(), cases, most=3, seed=seed, terms=terms).chosen}
        for seed in range(20)
    ]

    assert all(found == {CaseSign.POSITIVE, CaseSign.NEGATIVE} for found in signs)
    assert [sign_of(o) for o in (None, 0.49, 0.5)] == [
        CaseSign.OPEN,
        CaseSign.NEGATIVE,
        CaseSign.POSITIVE,
    ]


@pytest.mark.requirement("cases.propensity")
def test_the_chance_that_is_logged_is_the_one_that_a_case_was_chosen_with() -> None:
    values, terms = CaseValues(), CaseTerms(explore=0.2, daring=1.0)
    cases = [candidate(str(n), likeness=n / 4) for n in range(4)]
    valued = values.valued(cases)
    normals = np.random.default_rng(1).standard_normal((400, columns_of(4)))
    drawn = values.drawn(valued, normals)
    dice = (np.arange(1_000) + 0.5) / 1_000

    chosen = [chosen_from(valued, drawn, most=1, dice=[one], terms=terms).chosen[0] for one in dice]

    for n in range(4):
        mine = [one.propensity for one in chosen if one.valued.candidate.case == f"exp_{n}"]
        assert len(mine) / 1_000 == pytest.approx(mine[0], abs=2e-3)
        assert mine[0] >= terms.explore / 4


@given(st.lists(st.floats(0, 1), max_size=8), st.integers(0, 6))
def test_no_case_is_chosen_twice_and_what_is_left_is_counted(
    likenesses: list[float], most: int
) -> None:
    cases = [candidate(str(n), likeness=one) for n, one in enumerate(likenesses)]
    if not cases:
        assert CaseValues().valued(cases) == ()
        return

    choice = choose(CaseValues(), cases, most=most)

    names = [one.valued.candidate.case for one in choice.chosen]
    assert len(set(names)) == len(names) == min(most, len(cases))
    assert choice.left_out + len(names) + choice.harmful == len(cases)
    assert all(0 < one.propensity <= 1 for one in choice.chosen)


def test_the_part_of_each_of_several_cases_is_its_share_of_the_outcome() -> None:
    choice = choose(CaseValues(), [candidate("a"), candidate("b", likeness=0.4)])

    reads = [read_case(one, base=0.3, of=2, now_ms=9) for one in choice.chosen]

    assert [one.share for one in reads] == [0.5, 0.5]
    assert reads[0].excess(1.0) == pytest.approx(0.7 - choice.chosen[0].valued.linear)
    assert 0.0 <= expected_outcome(0.3, choice.chosen) <= 1.0
    assert expected_outcome(0.3, ()) == 0.3
