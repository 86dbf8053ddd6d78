"""What is expected of a call: from enough calls of its kind, and honestly nothing before."""

from dataclasses import replace
from functools import reduce

import pytest

from governor.command_class import CommandClass
from governor.errors import InvalidPolicyError
from governor.expectation import (
    NOTHING_KNOWN,
    Expectation,
    ExpectationTerms,
    Known,
    Measure,
    Work,
    expected,
)
from governor.ids import TenantId, ToolName

TERMS = ExpectationTerms(samples_min=20, quantile_permille=950, margin_permille=1_250)
WORK = Work(
    tenant=TenantId("acme"),
    tool=ToolName("shell_run"),
    kind=CommandClass.TEST,
    repository="abc",
)


def known(*wall_ms: int) -> Known:
    return reduce(Known.with_call, ({Measure.WALL_MS: one} for one in wall_ms), NOTHING_KNOWN)


def test_too_few_calls_say_nothing() -> None:
    found = expected(known(*[10] * 19), NOTHING_KNOWN, TERMS)

    assert found == Expectation(used={}, calls=19)


def test_enough_calls_say_their_quantile_with_something_to_spare() -> None:
    found = expected(known(*range(1, 101)), NOTHING_KNOWN, TERMS)

    # The 95th of a hundred is 95, which a bucket may show as 95 or a little more.
    assert found.calls == 100
    assert 119 <= found.used[Measure.WALL_MS] <= 122


def test_where_a_repository_is_new_the_same_work_anywhere_counts() -> None:
    found = expected(known(10), known(*[100] * 40), TERMS)

    assert found.calls == 40
    assert 125 <= found.used[Measure.WALL_MS] <= 129


def test_a_repository_that_is_known_counts_before_all_others() -> None:
    found = expected(known(*[10] * 20), known(*[1_000] * 500), TERMS)

    assert found == Expectation(used={Measure.WALL_MS: 13}, calls=20)


def test_measures_are_known_one_by_one() -> None:
    both = known(*[10] * 30).with_call({Measure.CPU_MS: 5})

    assert set(expected(both, NOTHING_KNOWN, TERMS).used) == {Measure.WALL_MS}


def test_what_two_sidecars_learned_is_known_together() -> None:
    together = known(*[1] * 15).plus(known(*[1] * 15))

    assert together == known(*[1] * 30)
    assert together.count == 30


def test_work_anywhere_is_the_same_but_for_its_place() -> None:
    assert WORK.anywhere == replace(WORK, repository="")


@pytest.mark.parametrize(
    "figures",
    [
        {"samples_min": 0},
        {"quantile_permille": 0},
        {"quantile_permille": 1_001},
        {"margin_permille": 999},
    ],
)
def test_terms_that_mean_nothing_are_refused(figures: dict[str, int]) -> None:
    with pytest.raises(InvalidPolicyError):
        ExpectationTerms(**figures)
