import pytest

from governor.turns import Growth
from runtime.evaluate.runs_file import RecordedRun
from runtime.evaluate.strategies import STRATEGIES, learn_dynamic, learn_fixed_model
from tests.runtime.evaluate.makers import MODELS, made_up_runs, recorded


@pytest.mark.parametrize("name", [name for name in STRATEGIES if name != "unlimited"])
@pytest.mark.parametrize("growth", Growth)
def test_every_model_gets_a_limit_of_a_turn_at_least(name: str, growth: Growth) -> None:
    limits = STRATEGIES[name](made_up_runs(), growth)

    assert set(limits.by_model) == set(MODELS)
    assert all(limit >= 1 for limit in limits.by_model.values())


def test_a_model_without_history_gets_the_limit_of_all_runs_together() -> None:
    limits = STRATEGIES["fixed_p75"](made_up_runs(), Growth.LINEAR)

    assert limits.of("never seen") == limits.otherwise is not None


def test_dynamic_keeps_to_the_loss_on_the_runs_that_taught_it() -> None:
    runs = made_up_runs(200)

    limits = learn_dynamic(0.02, borrowed_runs=0.0, folds=1)(runs, Growth.QUADRATIC)

    lost = [r for r in runs if r.run.is_solved and r.run.turns > (limits.of(r.model) or 0)]
    assert len(lost) <= 0.02 * len(runs)


def test_dynamic_spends_the_loss_where_it_buys_the_most() -> None:
    # Both lose the same by a cut, but only the waster saves much: fixed limits cut neither.
    def runs_of(model: str, late_turns: int) -> list[RecordedRun]:
        late = [recorded(model, f"late-{n}", turns=late_turns, solved=n == 0) for n in range(10)]
        return late + [recorded(model, f"t-{n}", turns=9, solved=True) for n in range(10)]

    runs = runs_of("waster", 900) + runs_of("steady", 10)

    fixed = learn_fixed_model(0.03)(runs, Growth.LINEAR)
    dynamic = learn_dynamic(0.03, borrowed_runs=0.0, folds=1)(runs, Growth.LINEAR)

    assert fixed.by_model == {"waster": 900, "steady": 10}
    assert dynamic.by_model == {"waster": 9, "steady": 10}


@pytest.mark.parametrize("name", STRATEGIES)
def test_one_task_alone_teaches_something(name: str) -> None:
    runs = [recorded("quick", "only", turns=3, solved=True), recorded("slow", "only", turns=8)]

    limits = STRATEGIES[name](runs, Growth.LINEAR)

    assert limits.of("quick") is None or limits.of("quick") >= 1
