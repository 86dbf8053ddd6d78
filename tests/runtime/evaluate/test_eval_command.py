import argparse
import json
from pathlib import Path

import pytest

from runtime.cli import eval as command
from runtime.settings import Settings
from tests.runtime.evaluate.makers import made_up_runs


def arguments_of(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    command.add_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture
def runs_file(tmp_path: Path) -> Path:
    path = tmp_path / "runs.csv"
    lines = ["model,instance_id,resolved,cost_usd,api_calls"]
    lines += [
        f"{r.model},{r.instance_id},{int(r.run.is_solved)},"
        f"{r.run.cost_microusd / 1e6},{r.run.turns}"
        for r in made_up_runs(20)
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("is_before", [True, False])
def test_one_json_object_is_printed(
    *, runs_file: Path, capsys: pytest.CaptureFixture[str], is_before: bool
) -> None:
    words = ["turns", "--runs", str(runs_file)]
    words = ["--json", *words] if is_before else [*words, "--json"]

    status = command.run(arguments_of(*words), Settings())

    shape = json.loads(capsys.readouterr().out)
    assert status == 0
    assert (shape["seed"], shape["splits"], len(shape["results"])) == (0, 20, 2)


def test_the_table_says_that_it_is_a_lower_bound(
    runs_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.run(arguments_of("turns", "--runs", str(runs_file)), Settings())

    told = capsys.readouterr().out
    assert "lower bounds" in told
    assert "fixed_model at that loss" in told
    assert all(len(line) <= 100 for line in told.splitlines())
