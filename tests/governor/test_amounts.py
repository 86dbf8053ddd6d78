import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import AMOUNT_MAX, NOTHING, Amounts, Unit
from governor.errors import InvalidAmountError
from tests.governor.makers import amounts

SOME = st.dictionaries(st.sampled_from(Unit), st.integers(0, AMOUNT_MAX // 2)).map(Amounts)


@pytest.mark.parametrize("value", [-1, AMOUNT_MAX + 1, 1.0, "1", None, True])
def test_an_amount_that_is_no_whole_number_in_range_is_refused(value: object) -> None:
    with pytest.raises(InvalidAmountError, match="tool_calls"):
        Amounts({Unit.TOOL_CALLS: value})


def test_the_largest_amount_is_accepted() -> None:
    assert Amounts({Unit.WALL_MS: AMOUNT_MAX}).of(Unit.WALL_MS) == AMOUNT_MAX


def test_a_unit_that_is_named_with_zero_differs_from_one_that_is_not_named() -> None:
    zero = amounts(turns=0)

    assert Unit.TURNS in zero
    assert Unit.TURNS not in NOTHING
    assert zero != NOTHING
    assert zero.of(Unit.TURNS) == NOTHING.of(Unit.TURNS) == 0


def test_amounts_do_not_follow_the_mapping_that_they_were_made_from() -> None:
    source = {Unit.TURNS: 1}
    kept = Amounts(source)

    source[Unit.TURNS] = 2

    assert kept.of(Unit.TURNS) == 1


@given(one=SOME, other=SOME)
def test_a_sum_adds_unit_by_unit_in_any_order(one: Amounts, other: Amounts) -> None:
    total = one.plus(other)

    assert total == other.plus(one)
    assert hash(total) == hash(other.plus(one))
    assert all(total.of(unit) == one.of(unit) + other.of(unit) for unit in Unit)
    assert {unit for unit, _ in total} == {unit for unit, _ in one} | {unit for unit, _ in other}


@given(some=SOME)
def test_nothing_is_neutral(some: Amounts) -> None:
    assert some.plus(NOTHING) == some


@given(some=SOME)
def test_amounts_show_themselves_under_the_public_names(some: Amounts) -> None:
    assert Amounts({Unit(name): value for name, value in some.as_dict().items()}) == some
