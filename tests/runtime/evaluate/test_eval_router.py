"""Routing is measured as the interfaces say: it gains where it can, and costs nothing elsewhere."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.cli import eval as command
from runtime.errors import RuntimeFaultError
from runtime.evaluate.router.bandit_run import bandit_run
from runtime.evaluate.router.evaluation import Wish, evaluate_router
from runtime.evaluate.router.foretelling import stretch_of, table_of
from runtime.evaluate.router.matched import Judged, matched_spend
from runtime.evaluate.router.rows_file import Recorded, read_outcomes
from runtime.router.outcome_lines import OutcomesFileError
from runtime.router.training import file_rows
from runtime.settings import Settings
from tests.runtime.evaluate.router_makers import told_by_nothing, told_by_text, told_by_the_run
from tests.runtime.evaluate.test_eval_command import arguments_of
from tests.runtime.evaluate.test_tools_files import lines_of

KEYS = {
    "certainty",
    "apgr",
    "cpt50",
    "cpt80",
    "apgr_unseen_groups",
    "matched_spend",
    "do_no_harm_pp",
}
LINE = told_by_text(1)[0]


def recorded(folder: Path, lines: list[dict[str, Any]], name: str = "o.jsonl") -> Recorded:
    return read_outcomes(lines_of(folder, *lines, name=name))


def evaluated(folder: Path, lines: list[dict[str, Any]], **wish: Any) -> dict[str, Any]:
    return evaluate_router(recorded(folder, lines), Wish(**wish), vectors=None)


@pytest.mark.requirement("eval.router")
def test_where_a_word_decides_the_gap_routing_is_nearly_an_oracle(tmp_path: Path) -> None:
    tested = recorded(tmp_path, told_by_text(200, seed=1), "test.jsonl")

    shape = evaluated(tmp_path, told_by_text(200), tested=tested)

    assert shape["apgr"] > 0.95 * shape["apgr_oracle"]
    at_half = shape["matched_spend"][3]
    assert at_half["score"] > 0.97
    assert at_half["best_mix_score"] < 0.9
    assert shape["cpt50"] < 20
    assert shape["apgr_unseen_groups"] > 0.8


@pytest.mark.requirement("eval.router-keeps-budgets")
@pytest.mark.parametrize("name", ["told_by_text", "told_by_nothing", "told_by_the_run"])
def test_a_budget_is_used_and_kept(tmp_path: Path, name: str) -> None:
    makers = {
        "told_by_text": told_by_text,
        "told_by_nothing": told_by_nothing,
        "told_by_the_run": told_by_the_run,
    }

    shape = evaluated(tmp_path, makers[name](240), labels=120)

    ratios = [entry["spend_ratio"] for entry in shape["matched_spend"]]
    assert max(ratios) <= 1.0
    # What would do no better with more is not spent; where it would, the budget is used.
    assert all(
        entry["spend_ratio"] > 0.95 or entry["score"] > 0.9 for entry in shape["matched_spend"]
    )


def test_of_few_prompts_a_budget_is_used_by_parts_of_calls_too(tmp_path: Path) -> None:
    table = table_of(recorded(tmp_path, told_by_nothing(100)), None)
    stretch = stretch_of(
        table.of(np.arange(50)), table.of(np.arange(50, 100)), seed=0, sees_runs=False
    )
    judged = Judged(
        stretches=(stretch,),
        trials=(stretch.trials(),),
        places=np.arange(50),
        scores=stretch.test_scores,
        costs=stretch.test_costs,
    )
    budgets = np.linspace(0.0015, 0.0075, 9).tolist()

    found = matched_spend([judged], budgets, ablation=False, seed=0)["matched_spend"]

    ratios = [entry["spend_ratio"] for entry in found]
    assert min(ratios) > 0.98
    assert max(ratios) < 1.005
    assert stretch.step() == pytest.approx(0.009)


@pytest.mark.requirement("eval.router-does-no-harm")
def test_where_prompts_tell_nothing_no_more_than_chance_is_lost(tmp_path: Path) -> None:
    shape = evaluated(tmp_path, told_by_nothing(400), labels=200)

    assert shape["apgr_ci95"][0] < 0.5 + 0.15
    for entry in shape["matched_spend"]:
        low, high = entry["gain_ci95_pp"]
        assert entry["gain_pp"] > -(high - low), "more is lost than chance would take"


@pytest.mark.requirement("eval.router-never-peeks")
def test_what_the_cheap_run_shows_is_used_once_it_is_paid(tmp_path: Path) -> None:
    shape = evaluated(tmp_path, told_by_the_run(300), labels=150)

    best = shape["matched_spend"][3]
    assert best["plan"].startswith("cascade")
    assert best["gain_pp"] > 5


@pytest.mark.requirement("eval.router-never-peeks")
def test_what_a_run_shows_is_hidden_from_all_that_chooses_before_it(tmp_path: Path) -> None:
    honest = table_of(recorded(tmp_path, told_by_the_run(200)), None)
    train, test = np.arange(100), np.arange(100, 200)
    before = stretch_of(honest.of(train), honest.of(test), seed=0).test

    poisoned = told_by_the_run(200)
    for line in poisoned[100:]:
        line["features"]["low"] = {"calls": 1e9 * line["tiers"]["high"]["score"], "cost": -7.0}
        line["features"]["high"] = {"answer": line["tiers"]["low"]["score"]}
    table = table_of(recorded(tmp_path, poisoned, "poisoned.jsonl"), None)
    after = stretch_of(table.of(train), table.of(test), seed=0).test

    assert np.array_equal(before.quality, after.quality)
    assert np.array_equal(before.cost, after.cost)
    assert before.later_quality is not None
    assert after.later_quality is not None
    assert not np.array_equal(before.later_quality, after.later_quality)


@pytest.mark.requirement("eval.router-never-peeks")
def test_what_the_dear_run_shows_is_never_looked_at(tmp_path: Path) -> None:
    shape = evaluated(tmp_path, told_by_the_run(240, poison=True), labels=120)

    assert all("cascade" not in entry["plan"] for entry in shape["matched_spend"])
    assert all(entry["gain_pp"] < 4 for entry in shape["matched_spend"])


@pytest.mark.requirement("eval.router")
@pytest.mark.parametrize("renamed", [{}, {"calls": "callz"}, {"calls": "aaa", "cost": "bbb"}])
def test_what_a_run_shows_goes_by_its_name_in_another_file(
    tmp_path: Path, renamed: dict[str, str]
) -> None:
    other = told_by_the_run(150, seed=1)
    for line in other:
        run = line["features"]["low"]
        line["features"] = {
            "low": {"before": 7.0} | {renamed.get(key, key): run[key] for key in run}
        }
    tested = recorded(tmp_path, other, "test.jsonl")
    train = table_of(recorded(tmp_path, told_by_the_run(200)), None)

    test = table_of(tested, None, like=train)
    foretold = stretch_of(train, test, seed=0).test

    assert test.keys == train.keys == ("calls", "cost")
    assert list(np.isfinite(test.seen[0])) == [key not in renamed for key in train.keys]
    assert foretold.later_quality is not None
    assert np.isfinite(foretold.later_quality).all()
    if not renamed:
        assert test.seen[0, 0] == other[0]["features"]["low"]["calls"]


def test_the_same_file_is_measured_the_same_twice(tmp_path: Path) -> None:
    first = evaluated(tmp_path, told_by_text(90), labels=60, ablation=True)
    again = evaluated(tmp_path, told_by_text(90), labels=60, ablation=True)

    assert first == again
    assert set(first["ablation"]) == {"words", "form"}


def test_the_same_prompt_is_never_learned_from_and_judged_on(tmp_path: Path) -> None:
    lines = told_by_nothing(60)
    for number, line in enumerate(lines):
        line["prompt"] = f"the very same {number % 20}"
        line["tiers"]["low"]["score"] = float(number % 20 < 10)

    shape = evaluated(tmp_path, [*lines, *lines], labels=40)

    assert shape["labels"] + shape["n"] == 120
    assert shape["labels"] <= 40


def test_a_bandit_that_is_told_late_learns_most_of_what_it_could(tmp_path: Path) -> None:
    table = table_of(recorded(tmp_path, told_by_text(1_500)), None)

    run = bandit_run(table, seed=0)

    assert run is not None
    assert run.delay == 200
    assert run.full_gain_pp > 5
    assert run.share_of_full_information is not None
    assert run.share_of_full_information > 0.5


def changed(tiers: Any) -> list[dict[str, Any]]:
    return [{**line, "tiers": tiers(line["tiers"])} for line in told_by_text(50)]


@pytest.mark.parametrize(
    "lines",
    [
        changed(lambda tiers: {"only": tiers["low"]}),
        changed(lambda tiers: {"a": tiers["low"], "b": tiers["low"]}),
        changed(lambda tiers: {"low": {"score": 1.0, "cost": 0.001}, "high": tiers["high"]}),
        changed(lambda tiers: {name: {**each, "cost": 0.0} for name, each in tiers.items()}),
        changed(lambda tiers: {name: {"score": 0.0, "cost": 1} for name in tiers}),
        changed(lambda tiers: {"low": tiers["high"], "high": {"score": 0.0, "cost": 5.0}}),
        changed(lambda tiers: {**tiers, "mid": {"score": 0.5, "cost": 0.004}, "x": tiers["low"]}),
        [{**line, "prompt": ""} for line in told_by_text(50)],
        [{**line, "prompt": f"same {number % 2}"} for number, line in enumerate(told_by_text(50))],
        [{**line, "features": {"low": {"calls": None}}} for line in told_by_text(50)],
        [
            {**line, "features": {"low": {"calls": 3}} if number % 2 else {}}
            for number, line in enumerate(told_by_text(50))
        ],
        [{**line, "group": "one"} for line in told_by_text(20)],
    ],
    ids=[
        "one-tier", "equal-tiers", "cheap-is-best", "free", "nothing-solved", "dear-is-worse",
        "four-tiers", "no-text", "two-texts", "nothing-seen", "half-seen", "one-group",
    ],
)  # fmt: skip
def test_any_outcomes_are_measured(tmp_path: Path, lines: list[dict[str, Any]]) -> None:
    shape = evaluated(tmp_path, lines, labels=len(lines) // 2)

    assert set(shape) >= KEYS | {"bandit", "n"}
    assert shape["n"] + shape["labels"] == len(lines)
    json.dumps(shape, allow_nan=False)


@pytest.mark.requirement("eval.router")
@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 3: is not JSON"),
        ("[1]", "line 3: expected an object"),
        ({**LINE, "prompt": 7}, "line 3: prompt: expected a text"),
        ({**LINE, "tiers": {}}, "line 3: tiers: expected"),
        ({**LINE, "tiers": {"low": 3}}, "line 3: tiers.low: expected score and cost"),
        ({**LINE, "tiers": {"low": {"score": 2, "cost": 1}}}, "tiers.low.score: expected a number"),
        ({**LINE, "tiers": {"low": {"score": "1", "cost": 1}}}, "tiers.low.score: expected"),
        ({**LINE, "tiers": {"low": {"score": 1, "cost": -1}}}, "tiers.low.cost: expected dollars"),
        ({**LINE, "tiers": {"low": {"score": 1, "cost": 1e300}}}, "tiers.low.cost: expected doll"),
        ({**LINE, "tiers": {"low": {"score": 1, "cost": 5e-310}}}, "line 3: tiers.low.cost: exp"),
        ({**LINE, "tiers": {"low": {"score": 1}}}, "tiers.low.cost: expected dollars"),
        ('{"prompt": "x", "tiers": {"low": {"score": NaN, "cost": 1}}}', "tiers.low.score"),
        ('{"prompt": "x", "tiers": {"low": {"score": 1, "cost": 1e999}}}', "tiers.low.cost"),
        ({**LINE, "features": {"low": {"calls": "many"}}}, "features.low.calls: expected a number"),
        ({**LINE, "features": [1]}, "line 3: features: expected an object"),
        ({**LINE, "group": ["a"]}, "line 3: group: expected a text"),
        ("[" * 100_000, "line 3"),
    ],
)
def test_a_line_that_is_not_usable_is_named(tmp_path: Path, line: object, says: str) -> None:
    path = lines_of(tmp_path, LINE, LINE, line)

    for read in (read_outcomes, file_rows):
        with pytest.raises(OutcomesFileError, match=says.replace(".", r"\.")):
            read(path)


def test_prompts_without_an_outcome_in_every_tier_are_left_out_and_counted(tmp_path: Path) -> None:
    lines = told_by_text(60)
    del lines[4]["tiers"]["high"]

    shape = evaluated(tmp_path, lines, labels=40)

    assert (shape["n"], shape["labels"], shape["left_out"]) == (19, 40, 1)


@pytest.mark.parametrize("labels", [0, 3, 60, 1_000])
def test_so_many_labels_as_there_cannot_be_are_refused(tmp_path: Path, labels: int) -> None:
    with pytest.raises(RuntimeFaultError, match="give 10 to 59"):
        evaluated(tmp_path, told_by_text(60), labels=labels)


def test_too_few_prompts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFaultError, match="it takes 20"):
        evaluated(tmp_path, told_by_text(19))


def test_other_tiers_in_the_test_are_told(tmp_path: Path) -> None:
    other = lines_of(tmp_path, {**LINE, "tiers": {"new": {"score": 1, "cost": 1}}}, name="t.jsonl")

    with pytest.raises(OutcomesFileError, match="no line has an outcome for all of the tiers"):
        read_outcomes(other, tiers=("low", "high"))


@pytest.mark.requirement("eval.router")
def test_the_command_prints_an_object_or_a_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcomes = str(lines_of(tmp_path, *told_by_text(80)))
    tested = str(lines_of(tmp_path, *told_by_text(30, seed=2), name="test.jsonl"))
    words = ["router", "--outcomes", outcomes, "--test", tested]

    command.run(arguments_of(*words, "--json"), Settings())
    shape = json.loads(capsys.readouterr().out)
    command.run(arguments_of(*words, "--ablation"), Settings())
    table = capsys.readouterr().out

    assert set(shape) >= KEYS | {"bandit", "n"}
    assert (shape["n"], shape["labels"]) == (30, 80)
    assert set(shape["matched_spend"][0]) >= {"budget", "score", "best_mix_score", "spend_ratio"}
    assert "Gap recovered (APGR)" in table
    assert "cheap prompts first throughout" in table
