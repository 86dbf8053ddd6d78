"""How the words of a command line are read, whichever command they name."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from runtime.cli.admin_api import refused
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


@pytest.mark.requirement("commands.what-next")
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ("memory", "playbook", "fix", "builds", "more"),
            "`flyball memory playbook --help` shows",
        ),
        (("sessions", "one", "two"), "there is no place for 'two'; `flyball sessions --help`"),
        (("eval", "turns", "--seed", "x"), "'x' is no whole number"),
        (("export", "--focus", "--by", "nope"), "'nope' is none of "),
        (("router", "show", "nope"), "`flyball router list` shows them"),
        (
            ("--config", "x", "doctor"),
            "--config stands behind the command: flyball doctor --config",
        ),
        (("nope",), "no command is called 'nope'; there are init, "),
    ],
)
def test_a_word_that_cannot_be_read_is_told_with_where_to_read_on(
    flyball: Flyball, words: tuple[str, ...], told: str
) -> None:
    ended = flyball(*words)

    assert ended.status == 2
    assert told in ended.err


@pytest.mark.requirement("commands.what-next")
def test_what_is_not_there_is_told_with_what_lists_the_others() -> None:
    def said(path: str) -> str:
        request = httpx.Request("GET", f"http://a.test/admin/v1/{path}")
        answer = httpx.Response(404, json={"detail": "There is no such one."}, request=request)
        with httpx.Client() as client:
            return str(refused(client, answer))

    assert said("calls/nope") == "there is no such one; `flyball calls` lists what there is"
    assert said("memory/experiences/nope").endswith("`flyball memory ls` lists what there is")
    assert said("overview") == "there is no such one"
