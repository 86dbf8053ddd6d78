from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.errors import InvalidAmountError
from governor.fairness.division import Demand, divide, short_of_one

DEMANDS = st.dictionaries(
    st.integers(0, 30),
    st.builds(Demand, wanted=st.integers(0, 40), weight=st.integers(1, 9)),
    max_size=12,
)


def one_by_one(capacity: int, demands: dict[int, Demand]) -> dict[int, int]:
    """Return the division by its definition: unit after unit to the one with the least."""
    got = dict.fromkeys(demands, 0)
    for _ in range(capacity):
        wanting = [who for who in demands if got[who] < demands[who].wanted]
        if not wanting:
            break
        poorest = min(wanting, key=lambda who: Fraction(got[who], demands[who].weight))
        got[poorest] += 1
    return got


@pytest.mark.requirement("contention.max-min-fair")
@given(capacity=st.integers(0, 300), demands=DEMANDS)
def test_the_division_is_exact_and_nobody_gets_more_than_wanted(
    capacity: int, demands: dict[int, Demand]
) -> None:
    got = divide(capacity, demands)

    assert sum(got.values()) == min(capacity, sum(d.wanted for d in demands.values()))
    assert all(0 <= got[who] <= demand.wanted for who, demand in demands.items())


@pytest.mark.requirement("contention.max-min-fair")
@given(capacity=st.integers(0, 300), demands=DEMANDS)
def test_nobody_could_get_more_except_from_somebody_who_has_no_more(
    capacity: int, demands: dict[int, Demand]
) -> None:
    got = divide(capacity, demands)

    for poor, demand in demands.items():
        if got[poor] == demand.wanted:
            continue
        for rich, other in demands.items():
            if rich != poor and got[rich]:
                assert Fraction(got[rich] - 1, other.weight) <= Fraction(got[poor], demand.weight)


@given(capacity=st.integers(0, 300), demands=DEMANDS)
def test_it_is_what_handing_out_unit_after_unit_gives(
    capacity: int, demands: dict[int, Demand]
) -> None:
    assert divide(capacity, demands) == one_by_one(capacity, demands)


@given(demands=DEMANDS.filter(lambda demands: any(d.wanted for d in demands.values())))
def test_where_one_unit_is_missing_the_same_one_is_short_of_it(demands: dict[int, Demand]) -> None:
    got = divide(sum(demand.wanted for demand in demands.values()) - 1, demands)

    (short,) = (who for who, demand in demands.items() if got[who] < demand.wanted)
    assert short_of_one(demands) == short


def test_a_large_capacity_is_divided_by_weight() -> None:
    wants_all = {"a": Demand(wanted=10**9, weight=3), "b": Demand(wanted=10**9, weight=1)}

    got = divide(10**9, wants_all | {"c": Demand(wanted=5)})

    assert got["c"] == 5
    assert abs(got["a"] - 3 * got["b"]) <= 4
    assert sum(got.values()) == 10**9


def test_what_cannot_be_divided_is_refused() -> None:
    with pytest.raises(InvalidAmountError, match="capacity: -1"):
        divide(-1, {})
    with pytest.raises(InvalidAmountError, match="wanted: -1"):
        Demand(wanted=-1)
    with pytest.raises(InvalidAmountError, match="weight: 0"):
        Demand(wanted=1, weight=0)
