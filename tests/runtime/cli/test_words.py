"""How the words of a command line are read, whichever command they name."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.cli.commands import COMMANDS
from tests.runtime.cli.conftest import Flyball

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("words", [["--version"], ["--help"]])
@pytest.mark.requirement("commands.start-light")
def test_who_asks_what_there_is_waits_for_no_command_to_be_loaded(words: list[str]) -> None:
    looking = (
        "import sys\nfrom runtime.cli import main\n"
        f"try:\n    main({words!r})\nexcept SystemExit:\n    pass\n"
        "heavy = {'sqlalchemy', 'fastapi', 'httpx', 'numpy', 'rich', 'shtab'} & set(sys.modules)\n"
        "sys.exit(f'{sorted(heavy)}' if heavy else 0)"
    )

    done = subprocess.run(
        [sys.executable, "-c", looking],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")


def test_every_command_is_in_the_help_with_a_line_and_has_a_module(flyball: Flyball) -> None:
    told = " ".join(flyball("--help").out.split())

    for command in COMMANDS.values():
        module = importlib.import_module(command.path)
        assert f"{command.name} {command.about}" in told
        assert callable(module.run)
        assert callable(module.add_arguments)


@pytest.mark.requirement("commands.what-next")
def test_a_mistyped_command_is_answered_with_what_may_have_been_meant(flyball: Flyball) -> None:
    ended = flyball("buget")

    assert ended.status == 2
    assert "did you mean `flyball budgets`?" in ended.err


def test_a_mistyped_value_is_answered_with_what_may_have_been_meant(flyball: Flyball) -> None:
    ended = flyball("token", "lst", "agent")

    assert ended.status == 2
    assert "'lst' is none of make, list, rotate, revoke (did you mean list?)" in ended.err
    assert "`flyball token --help`" in ended.err


@pytest.mark.requirement("commands.json")
def test_words_that_cannot_be_read_are_told_in_json_where_that_is_asked_for(
    flyball: Flyball,
) -> None:
    ended = flyball("token", "lst", "agent", "--json")

    told = json.loads(ended.out)
    assert (ended.status, ended.err, told["ok"]) == (2, "", False)
    assert "did you mean list?" in told["error"]


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "eval"])
@pytest.mark.requirement("commands.json")
def test_every_command_has_help_and_answers_in_json(flyball: Flyball, name: str) -> None:
    ended = flyball(name, "--help")

    assert ended.status == 0
    for option in ("--json", "--config FILE", "--state DIR"):
        assert option in ended.out
    assert all(len(line) <= 100 for line in ended.out.splitlines())


def test_a_deed_of_a_command_says_what_it_is_for(flyball: Flyball) -> None:
    told = flyball("memory", "ls", "--help").out

    assert "List experiences, the latest first." in told


def test_json_that_another_program_is_asked_for_is_none_of_ours(flyball: Flyball) -> None:
    ended = flyball("run", "--bogus", "--", "agent", "--json")

    assert ended.status == 2
    assert ended.err != ""
