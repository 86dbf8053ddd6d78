"""`flyball router`, `flyball tiers` and `flyball eval router --log`: shapes, and bad input."""

import json
from pathlib import Path

import pytest

from tests.runtime.cli.conftest import Flyball


def recorded(folder: Path, *lines: object) -> str:
    path = folder / "outcomes.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n")
    return path.name


def row(number: int, **tiers: tuple[float, float]) -> dict[str, object]:
    return {
        "id": number,
        "group": "g",
        "prompt": f"What is {number}?",
        "tiers": {name: {"score": score, "cost": cost} for name, (score, cost) in tiers.items()},
    }


def test_the_pareto_set_of_recorded_outcomes_names_who_dominates_whom(
    flyball: Flyball, folder: Path
) -> None:
    rows = [
        row(n, low=(n % 2, 0.001), mid=(float(n % 3 == 0), 0.01), high=(1.0, 0.005))
        for n in range(300)
    ]

    ended = flyball("tiers", "advise", "--outcomes", recorded(folder, *rows), "--json")

    told = json.loads(ended.out)
    standings = {tier["tier"]: (tier["standing"], tier["dominated_by"]) for tier in told["tiers"]}
    assert ended.status == 0
    assert (told["source"], told["n"], told["pareto"]) == ("outcomes", 300, ["low", "high"])
    assert standings["mid"] == ("dominated", "high")
    assert told["tiers"][0]["cost_microusd"]["value"] == pytest.approx(1_000)


def test_the_pareto_set_is_told_in_words(flyball: Flyball, folder: Path) -> None:
    rows = [row(n, low=(0.5, 0.001), high=(0.4, 0.002)) for n in range(50)]

    ended = flyball("tiers", "advise", "--outcomes", recorded(folder, *rows))

    assert "high" in ended.out
    assert "dominated: low is better and no dearer" in ended.out


def test_a_thin_file_says_nothing_and_says_so(flyball: Flyball, folder: Path) -> None:
    ended = flyball("tiers", "advise", "--outcomes", recorded(folder, row(1, low=(1, 1))), "--json")

    told = json.loads(ended.out)
    assert told["pareto"] == []
    assert "too few" in told["too_thin"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 2: "),
        ({"id": 1, "prompt": "x"}, "tiers"),
        ({"id": 1, "prompt": "x", "tiers": {"low": {"score": "good", "cost": 1}}}, "score"),
        ([], "expected"),
    ],
)
def test_a_line_that_is_no_outcome_is_named(
    flyball: Flyball, folder: Path, line: object, says: str
) -> None:
    path = folder / "outcomes.jsonl"
    bad = line if isinstance(line, str) else json.dumps(line)
    path.write_text(json.dumps(row(1, low=(1, 1))) + "\n" + bad + "\n")

    ended = flyball("tiers", "advise", "--outcomes", path.name, "--json")

    told = json.loads(ended.out)
    assert ended.status == 2
    assert not told["ok"]
    assert says in told["error"]
    assert "outcomes.jsonl, line 2" in told["error"]


def test_a_file_that_is_not_there_is_named(flyball: Flyball) -> None:
    ended = flyball("tiers", "advise", "--outcomes", "nowhere.jsonl")

    assert ended.status == 2
    assert "nowhere.jsonl: No such file" in ended.err


@pytest.mark.parametrize(
    "words",
    [
        ("router", "list"),
        ("router", "train"),
        ("router", "rollback"),
        ("router", "promote", "0123456789ab"),
        ("tiers", "list"),
        ("eval", "router", "--log"),
    ],
)
def test_without_a_sidecar_it_is_said_how_to_start_one(
    flyball: Flyball, words: tuple[str, ...]
) -> None:
    ended = flyball(*words, "--json")

    assert ended.status == 2
    assert "flyball up" in json.loads(ended.out)["error"]


@pytest.mark.parametrize("words", [("router", "train"), ("tiers", "list"), ("router", "list")])
def test_options_may_stand_after_the_deed(flyball: Flyball, words: tuple[str, ...]) -> None:
    ended = flyball(*words, "--state", "elsewhere", "--config", "nowhere.toml", "--json")

    assert "elsewhere" in json.loads(ended.out)["error"]


def test_an_evaluation_is_of_a_file_or_of_the_log(flyball: Flyball) -> None:
    neither = flyball("eval", "router")
    both = flyball("eval", "router", "--log", "--outcomes", "x.jsonl")

    assert (neither.status, both.status) == (2, 2)
    assert "either --outcomes FILE.jsonl or --log" in neither.err
    assert "either --outcomes FILE.jsonl or --log" in both.err
