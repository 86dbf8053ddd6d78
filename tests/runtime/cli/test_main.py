import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ebpf.errors import CapabilityMissingError
from memory_store.errors import StateDirectoryBusyError
from runtime.cli import init, main
from runtime.errors import ConfigError, RuntimeFaultError
from runtime.settings import Settings
from runtime.version import VERSION
from tests.runtime.cli.conftest import Flyball

ROOT = Path(__file__).resolve().parents[3]


def test_an_unknown_command_is_refused_with_those_that_there_are(flyball: Flyball) -> None:
    ended = flyball("serve")

    assert ended.status == 2
    assert ended.out == ""
    for name in ("up", "init", "doctor", "token", "approve", "tour"):
        assert name in ended.err


def test_no_command_at_all_is_refused_with_the_usage(flyball: Flyball) -> None:
    ended = flyball()

    assert ended.status == 2
    assert ended.err.startswith("usage: flyball")


def test_the_version_is_this_distributions(flyball: Flyball) -> None:
    ended = flyball("--version")

    assert ended.status == 0
    assert ended.out == f"flyball {VERSION}\n"


@pytest.mark.parametrize(
    "error",
    [
        ConfigError("flyball.toml: no such file"),
        RuntimeFaultError("which token?"),
        StateDirectoryBusyError(),
        CapabilityMissingError("there is no user 'x'"),
    ],
)
def test_what_stops_a_command_is_told_without_a_traceback_and_ends_with_2(
    error: Exception, flyball: Flyball, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> int:
        raise error

    monkeypatch.setattr(init, "run", fail)

    in_words, in_json = flyball("init"), flyball("init", "--json")

    assert (in_words.status, in_words.out, in_words.err) == (2, "", f"flyball: {error}\n")
    assert (in_json.status, in_json.err) == (2, "")
    assert json.loads(in_json.out) == {"ok": False, "error": str(error)}


def test_ctrl_c_ends_a_command_quietly_with_130(
    flyball: Flyball, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(init, "run", interrupted)

    ended = flyball("init")

    assert (ended.status, ended.out, ended.err) == (130, "", "")


def test_a_fault_of_ours_is_not_hidden_behind_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_arguments: object) -> int:
        raise ZeroDivisionError

    monkeypatch.setattr(init, "run", broken)

    with pytest.raises(ZeroDivisionError):
        main(["init"])


def test_what_the_command_line_names_goes_before_the_environment(
    flyball: Flyball, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Settings] = []

    def look(_arguments: object, settings: Settings) -> int:
        seen.append(settings)
        return 0

    monkeypatch.setattr(init, "run", look)
    monkeypatch.setenv("FLYBALL_CONFIG", "/etc/flyball.toml")
    monkeypatch.setenv("FLYBALL_STATE", "/var/lib/flyball")

    flyball("init")
    flyball("init", "--config", "mine.toml", "--state", "mine")

    assert [settings.config for settings in seen] == [Path("/etc/flyball.toml"), Path("mine.toml")]
    assert [settings.state for settings in seen] == [Path("/var/lib/flyball"), folder / "mine"]


def test_windows_is_refused_with_the_way_around(
    flyball: Flyball, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")

    in_words, in_json = flyball("doctor"), flyball("doctor", "--json")

    assert in_words.status == in_json.status == 2
    assert "WSL2" in in_words.err
    assert "WSL2" in json.loads(in_json.out)["error"]


@pytest.mark.requirement("package.one-command")
def test_the_package_can_be_run_as_a_module() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "runtime", "--version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert ended.stdout == f"flyball {VERSION}\n"


def test_several_errors_of_task_groups_are_told_once_each(
    flyball: Flyball, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = RuntimeFaultError("the port is taken")

    def fail(*_arguments: object) -> int:
        inner = ExceptionGroup("inner", [taken, CapabilityMissingError("no such user")])
        raise ExceptionGroup("outer", [inner, RuntimeFaultError("the port is taken")])

    monkeypatch.setattr(init, "run", fail)

    ended = flyball("init")

    assert (ended.status, ended.err) == (2, "flyball: the port is taken\nno such user\n")


def test_a_fault_of_ours_among_others_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object) -> int:
        raise ExceptionGroup("both", [RuntimeFaultError("taken"), ZeroDivisionError()])

    monkeypatch.setattr(init, "run", fail)

    with pytest.raises(ExceptionGroup):
        main(["init"])


def test_a_setting_that_cannot_be_used_is_one_sentence(
    flyball: Flyball, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLYBALL_LOG_LEVEL", "loud")

    ended = flyball("doctor")

    assert ended.status == 2
    assert ended.err.startswith("flyball: FLYBALL_LOG_LEVEL = 'LOUD': should be 'DEBUG', ")
    assert ended.err.count("\n") == 1


def test_a_reader_that_goes_away_is_no_traceback(folder: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "runtime", "doctor"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as command:
        assert command.stdout is not None
        command.stdout.close()
        assert command.stderr is not None
        said = command.stderr.read()

    assert (command.returncode, said) == (141, "")


def test_an_output_that_lacks_a_character_is_no_reason_to_fail(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runtime", "--help"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "[--state DIR] \\u2026" in done.stdout


def test_windows_is_told_before_anything_is_imported_that_it_does_not_have() -> None:
    script = (
        "import sys\n"
        "sys.platform = 'win32'\n"
        "sys.modules.update(fcntl=None, pwd=None, resource=None)\n"
        "from runtime.cli import main\n"
        "main(['up'])\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 2
    assert ended.stderr == "flyball: Windows is not supported; run Flyball inside WSL2.\n"


def test_ctrl_c_while_modules_are_imported_ends_quietly() -> None:
    script = (
        "import sys\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'runtime.cli.command_line':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupt())\n"
        "from runtime.cli import main\n"
        "main(['up'])\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (ended.returncode, ended.stderr) == (130, "")


@pytest.mark.parametrize("command", ["approve", "budgets"])
def test_a_command_that_only_asks_does_not_load_what_serves(command: str) -> None:
    looking = (
        "import sys; from runtime.cli.command_line import parser_of\n"
        f"words = [{command!r}]; parser_of(words).parse_args(words)\n"
        "heavy = {'sqlalchemy', 'fastapi', 'mcp', 'alembic', 'numpy', 'uvicorn', 'shtab'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", looking],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip

    assert done.stdout == "[]\n"
