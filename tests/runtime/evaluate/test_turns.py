from dataclasses import replace
from random import Random

import pytest

from governor.turns import Growth
from runtime.errors import RuntimeFaultError
from runtime.evaluate.runs_file import RecordedRun
from runtime.evaluate.strategies import STRATEGIES, Limits
from runtime.evaluate.turns import _halves, evaluate_turns, score
from tests.runtime.evaluate.makers import made_up_runs, recorded


def test_the_shape_is_that_of_the_interface() -> None:
    shape = evaluate_turns(made_up_runs(), splits=3).shape()

    assert (shape["seed"], shape["splits"]) == (0, 3)
    assert [result["growth"] for result in shape["results"]] == ["linear", "quadratic"]
    for result in shape["results"]:
        assert set(result) == {"growth", "strategies"}
        names = [strategy["name"] for strategy in result["strategies"]]
        assert names == ["unlimited", "fixed_p75", "fixed_p90", "fixed_model", "dynamic"]
        for strategy in result["strategies"]:
            assert set(strategy) == {
                "name", "cost_saved", "solve_rate_delta_pp", "cost_of_pass_ratio",
            }  # fmt: skip


def test_what_is_compared_next_is_told() -> None:
    begun: list[str] = []

    evaluate_turns(made_up_runs(), splits=2, begun=begun.append)

    assert begun[0] == "linear: unlimited"
    assert "quadratic: dynamic" in begun


def test_unlimited_saves_nothing_and_loses_nothing_and_no_limit_gains() -> None:
    for result in evaluate_turns(made_up_runs(), splits=3).results:
        unlimited = result.strategies["unlimited"]

        assert (unlimited.cost_saved, unlimited.solve_rate_delta_pp) == (0.0, 0.0)
        assert unlimited.cost_of_pass_ratio == 1.0
        for judged in result.strategies.values():
            assert 0.0 <= judged.cost_saved <= 1.0
            assert judged.solve_rate_delta_pp <= 0.0


def test_the_same_seed_gives_the_same_figures_and_another_seed_others() -> None:
    runs = made_up_runs()

    one, again, other = (evaluate_turns(runs, seed=seed, splits=2).shape() for seed in (7, 7, 8))

    assert one == again
    assert one["results"] != other["results"]


def test_the_order_of_the_lines_changes_no_figure() -> None:
    runs = made_up_runs()
    mixed = Random(3).sample(runs, len(runs))

    one, other = (evaluate_turns(r, splits=2).results[0].strategies for r in (runs, mixed))

    for name, judged in one.items():
        assert judged.cost_saved == pytest.approx(other[name].cost_saved)
        assert judged.solve_rate_delta_pp == pytest.approx(other[name].solve_rate_delta_pp)


def test_no_task_is_in_both_halves() -> None:
    runs = made_up_runs(11)

    training, test = _halves(runs, sorted({r.instance_id for r in runs}), seed=0, split=4)

    assert not {r.instance_id for r in training} & {r.instance_id for r in test}
    assert len(training) + len(test) == len(runs)


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("growth", Growth)
def test_what_happens_after_a_decision_changes_no_decision(name: str, growth: Growth) -> None:
    runs = made_up_runs()
    tasks = sorted({r.instance_id for r in runs})
    training, test = _halves(runs, tasks, seed=0, split=0)
    limits = STRATEGIES[name](training, growth)
    # Every judged run that its limit cut now ends otherwise: longer, dearer, solved or not.
    dice = Random(5)
    changed = {id(r): _with_another_future(r, limits, dice) for r in test}
    again_training, again_test = _halves(
        [changed.get(id(r), r) for r in runs], tasks, seed=0, split=0
    )

    again = STRATEGIES[name](again_training, growth)

    assert again == limits
    for before, after in zip(test, again_test, strict=True):
        limit = limits.of(before.model)
        is_cut = limit is not None and before.run.turns > limit
        assert is_cut == (limit is not None and after.run.turns > limit)


def test_a_limit_is_scored_per_model_and_models_count_the_same() -> None:
    runs = [
        recorded("dear", "a", turns=10, cost=1_000_000, solved=True),
        recorded("cheap", "a", turns=10, cost=10, solved=True),
        recorded("cheap", "b", turns=5, cost=10, solved=True),
    ]

    judged = score(runs, Limits(by_model={"dear": 10, "cheap": 5}), Growth.LINEAR)

    assert judged.cost_saved == pytest.approx((0 + 5 / 20) / 2)
    assert judged.solve_rate_delta_pp == pytest.approx(-25.0)
    assert judged.cost_of_pass_ratio == pytest.approx((1 - 0.125) / 0.75)


def test_a_cost_of_pass_without_a_pass_is_unknown() -> None:
    runs = [recorded("poor", f"t{n}", turns=5 + n) for n in range(4)]

    for result in evaluate_turns(runs, splits=2).results:
        assert all(judged.cost_of_pass_ratio is None for judged in result.strategies.values())


@pytest.mark.parametrize(
    ("runs", "column"),
    [
        ([recorded("m", "only", turns=n) for n in (1, 2)], "instance_id"),
        ([recorded("m", f"t{n}", turns=n, cost=0) for n in (1, 2)], "cost_usd"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_its_column(
    runs: list[RecordedRun], column: str
) -> None:
    with pytest.raises(RuntimeFaultError, match=column):
        evaluate_turns(runs)


def _with_another_future(one: RecordedRun, limits: Limits, dice: Random) -> RecordedRun:
    limit = limits.of(one.model)
    if limit is None or one.run.turns <= limit:
        return one
    future = replace(
        one.run,
        turns=limit + dice.randint(1, 500),
        cost_microusd=dice.randint(1, 10**6),
        is_solved=dice.random() < 0.5,
    )
    return replace(one, run=future)
