import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.turns import (
    Growth,
    PastRun,
    extension_turns,
    is_kept,
    outlooks,
    percentile_limit,
    priced_limit,
    spent_microusd,
    thriftiest_limit,
)

RUN = st.builds(
    PastRun,
    turns=st.integers(1, 60),
    cost_microusd=st.integers(0, 10**7),
    is_solved=st.booleans(),
)
HISTORY = st.lists(RUN, min_size=1, max_size=40)
GROWTH = st.sampled_from(Growth)
PRICE = st.floats(0.0, 50.0)


def past(turns: int, *, cost: int = 1_000, solved: bool = False) -> PastRun:
    return PastRun(turns=turns, cost_microusd=cost, is_solved=solved)


@pytest.mark.parametrize(("growth", "spent"), [(Growth.LINEAR, 500), (Growth.QUADRATIC, 250)])
def test_a_run_cut_at_half_its_turns_costs_what_the_growth_says(growth: Growth, spent: int) -> None:
    assert spent_microusd(past(10), limit=5, growth=growth) == spent


@given(run=RUN, growth=GROWTH, limits=st.tuples(st.integers(0, 70), st.integers(0, 70)))
def test_a_shorter_limit_never_costs_or_solves_more(
    run: PastRun, growth: Growth, limits: tuple[int, int]
) -> None:
    short, long = sorted(limits)

    costs = [spent_microusd(run, limit=n, growth=growth) for n in (short, long, None)]
    kept = [is_kept(run, limit=n) for n in (short, long, None)]

    assert costs == sorted(costs)
    assert kept == sorted(kept)


@given(history=HISTORY, percent=st.integers(1, 100))
def test_a_percentile_limit_lets_that_share_of_its_history_end(
    history: list[PastRun], percent: int
) -> None:
    limit = percentile_limit(history, percent=percent)

    within = sum(run.turns <= limit for run in history)
    assert 100 * within >= percent * len(history)


@given(history=HISTORY, growth=GROWTH)
def test_an_outlook_says_what_a_replay_of_its_history_finds(
    history: list[PastRun], growth: Growth
) -> None:
    outlook = outlooks({"one": history}, growth=growth, borrowed_runs=0.0)["one"]
    cost = sum(run.cost_microusd for run in history)

    for cut in outlook.cuts:
        spent = sum(spent_microusd(run, limit=cut.limit, growth=growth) for run in history)
        lost = sum(run.is_solved and not is_kept(run, limit=cut.limit) for run in history)
        # Spending is rounded down to whole micro-units, run by run.
        assert cut.saved_share * (cost or 1) == pytest.approx(cost - spent, abs=len(history) + 1)
        assert cut.lost_share == pytest.approx(lost / len(history))


@given(history=HISTORY, growth=GROWTH, allowed=st.floats(0.0, 0.5))
def test_the_thriftiest_limit_keeps_to_the_loss_allowed_in_its_history(
    history: list[PastRun], growth: Growth, allowed: float
) -> None:
    outlook = outlooks({"one": history}, growth=growth, borrowed_runs=0.0)["one"]

    limit = thriftiest_limit(outlook, lost_share_max=allowed)

    lost = sum(run.is_solved and run.turns > limit for run in history)
    assert lost <= allowed * len(history) + 1e-6


@given(history=HISTORY, other=HISTORY, growth=GROWTH, prices=st.tuples(PRICE, PRICE))
def test_a_dearer_solve_never_shortens_the_limit(
    history: list[PastRun], other: list[PastRun], growth: Growth, prices: tuple[float, float]
) -> None:
    outlook = outlooks({1: history, 2: other}, growth=growth, borrowed_runs=5.0)[1]
    cheap, dear = sorted(prices)

    assert priced_limit(outlook, solve_price=cheap) <= priced_limit(outlook, solve_price=dear)


@given(history=HISTORY, other=HISTORY, growth=GROWTH, price=PRICE, refuse=st.booleans())
def test_extensions_asked_for_one_after_another_end_at_the_priced_limit(
    *, history: list[PastRun], other: list[PastRun], growth: Growth, price: float, refuse: bool
) -> None:
    found = outlooks({1: history, 2: other}, growth=growth, borrowed_runs=5.0, may_refuse=refuse)
    outlook, turn = found[1], 0

    while granted := extension_turns(outlook, turn=turn, solve_price=price):
        turn += granted

    limit = priced_limit(outlook, solve_price=price)
    worth = {c.limit: c.saved_share - price * c.lost_share for c in outlook.cuts}
    assert turn == limit or worth[turn] == pytest.approx(worth[limit], abs=1e-9)


def test_no_extension_is_granted_beyond_the_last_solve_known() -> None:
    history = [past(5, solved=True), past(50)]
    outlook = outlooks({"one": history}, growth=Growth.LINEAR, borrowed_runs=0.0)["one"]

    assert extension_turns(outlook, turn=0, solve_price=9.0) == 5
    assert extension_turns(outlook, turn=5, solve_price=9.0) == 0
    assert extension_turns(outlook, turn=70, solve_price=9.0) == 0


def test_a_history_that_never_solved_anything_borrows_hope_from_the_others() -> None:
    histories = {"new": [past(10)], "old": [past(10 + n % 7, solved=True) for n in range(40)]}

    alone = outlooks(histories, growth=Growth.LINEAR, borrowed_runs=0.0)["new"]
    shrunk = outlooks(histories, growth=Growth.LINEAR, borrowed_runs=20.0)["new"]

    assert priced_limit(alone, solve_price=50.0) == 1
    assert priced_limit(shrunk, solve_price=50.0) > 1
