import subprocess
import sys
from dataclasses import replace

import jsonschema
import pytest

from tests.tool_gateway.makers import LIMITS
from tests.tool_gateway.test_shell import FakeRunner, call
from tool_gateway.errors import UpstreamNotReachedError
from tool_gateway.ports import Meter
from tool_gateway.python_run import PYTHON_RUN, python_command_of
from tool_gateway.shell import PYTHON_ENTRY, Shell

WORD_BYTES_MAX = 128 * 1024  # what Linux lets one word of a command line have


def ran(**arguments: object) -> subprocess.CompletedProcess[str]:
    command = python_command_of(arguments, {}, sys.executable)
    done = subprocess.run(
        command.argv, input=command.stdin, capture_output=True, check=False, timeout=60
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


@pytest.mark.requirement("local.python-run")
def test_a_program_finds_what_it_would_find_behind_the_interpreter() -> None:
    code = "import sys\nprint(__name__, sys.argv, sys.stdin.read(), sorted(globals())[-1])\nx = 1"

    done = ran(code=code, args=["a b", "--flag"], stdin="née\nlines")

    assert done.stdout == "__main__ ['<python_run>', 'a b', '--flag'] née\nlines sys\n"
    assert (done.returncode, done.stderr) == (0, "")


def test_a_source_may_be_larger_than_a_word_of_a_command_line() -> None:
    code = "total = 0\n" + "total += 1  # éé\n" * 20_000 + "print(total, input())"
    assert len(code.encode()) > WORD_BYTES_MAX

    done = ran(code=code, stdin="and its input")

    assert done.stdout == "20000 and its input\n"


def test_what_goes_wrong_is_told_with_the_lines_of_the_source_and_no_others() -> None:
    done = ran(code="def broken():\n    return 1 / 0\n\nbroken()\n")

    assert done.returncode == 1
    assert 'File "<python_run>", line 2, in broken\n    return 1 / 0' in done.stderr
    assert '"<string>"' not in done.stderr


def test_a_program_that_is_no_python_is_told_where() -> None:
    done = ran(code="print(1)\nprint(((\n")

    assert done.returncode == 1
    assert 'File "<python_run>", line 2' in done.stderr
    assert "SyntaxError" in done.stderr


def test_a_program_ends_with_the_status_that_it_chooses() -> None:
    assert ran(code="raise SystemExit(7)").returncode == 7


def test_what_is_defined_in_a_program_can_be_found_by_its_name() -> None:
    code = "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__module__)"

    assert ran(code=code).stdout == "__main__\n"


@pytest.mark.requirement("input.wrong-types")
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"code": ""},
        {"code": ["x"]},
        {"code": "x", "args": "a"},
        {"code": "x", "args": ["\0"]},
        {"code": "x", "command": "ls"},
        {"code": "x", "timeout_ms": 0},
    ],
)
def test_arguments_that_say_no_program_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(arguments, dict(PYTHON_ENTRY.input_schema))


@pytest.mark.anyio
async def test_a_program_runs_with_the_interpreter_that_is_configured_under_its_limits() -> None:
    runner = FakeRunner()
    shell = Shell(runner=runner, environment={"PATH": "/bin"}, python="/opt/python3")

    await shell.run(
        replace(call(code="print(1)", cwd="/srv", env={"A": "b"}, timeout_ms=10), tool=PYTHON_RUN),
        LIMITS,
        Meter(),
    )

    ((_, command, limits),) = runner.commands
    assert command.argv[0] == "/opt/python3"
    assert (command.cwd, command.env) == ("/srv", {"PATH": "/bin", "A": "b"})
    assert limits == replace(LIMITS, wall_ms=10)


@pytest.mark.anyio
async def test_without_an_interpreter_nothing_is_run_and_the_setting_is_named() -> None:
    shell = Shell(runner=FakeRunner(), environment={}, python=None)

    with pytest.raises(UpstreamNotReachedError, match=r"local\.python"):
        await shell.run(replace(call(code="1"), tool=PYTHON_RUN), LIMITS, Meter())
