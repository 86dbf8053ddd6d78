from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import jsonschema
import pytest

from governor.amounts import NOTHING, Unit
from governor.call import CallStatus, Enforcement, Isolated
from governor.fairness.claim import Priority
from governor.ids import ToolName
from governor.limits import ExecutionLimits
from governor.scope import ScopeChain
from governor.usage import Usage
from tests.tool_gateway.makers import LIMITS, a_call
from tool_gateway.ports import Command, CommandOutcome, Meter
from tool_gateway.python_run import PYTHON_RUN
from tool_gateway.shell import (
    ENTRY,
    SHELL_META,
    SHELL_RUN,
    Shell,
    command_of,
    problem_in_words,
)

HELD = Isolated(enforcement=Enforcement.ENFORCED, contained=True, by="cgroup v2")
ENDED = CommandOutcome(
    status=CallStatus.OK,
    exit_code=0,
    stdout=b"out",
    stderr=b"",
    explanation="",
    usage=Usage(measured=NOTHING),
    isolated=HELD,
)


@dataclass
class FakeRunner:
    """Ends every command as it is told and keeps what it was asked."""

    ended: CommandOutcome = ENDED
    unmeasurable: Mapping[Unit, str] = field(default_factory=dict)
    commands: list[tuple[str, Command, ExecutionLimits]] = field(default_factory=list)
    chains: list[ScopeChain] = field(default_factory=list)
    priorities: list[Priority] = field(default_factory=list)
    asked_cwd: str | None = None

    def isolation_for(self, limits: ExecutionLimits, *, cwd: str | None) -> Isolated:
        self.asked_cwd = cwd
        return HELD

    async def run(
        self,
        name: str,
        command: Command,
        limits: ExecutionLimits,
        meter: Meter,
        *,
        chain: ScopeChain,
        priority: Priority,
    ) -> CommandOutcome:
        self.chains.append(chain)
        self.priorities.append(priority)
        self.commands.append((name, command, limits))
        return self.ended


def call(**arguments: object):  # noqa: ANN201 - the call's own type says it
    return replace(a_call("call_7"), tool=SHELL_RUN, arguments=arguments)


def test_a_line_goes_to_the_shell_and_words_go_to_no_shell() -> None:
    line = command_of({"command": "echo $HOME; ls"}, {})
    words = command_of({"argv": ["echo", "$HOME; ls"]}, {})

    assert line.argv == ("/bin/sh", "-c", "echo $HOME; ls")
    assert words.argv == ("echo", "$HOME; ls")


def test_a_command_gets_the_minimal_environment_and_what_the_call_adds() -> None:
    command = command_of(
        {"argv": ["x"], "env": {"A": "call"}, "cwd": "/srv", "stdin": "é"},
        {"A": "house", "PATH": "/bin"},
    )

    assert command.env == {"A": "call", "PATH": "/bin"}
    assert command.cwd == "/srv"
    assert command.stdin == "é".encode()


def test_a_command_that_says_nothing_more_has_no_input_and_the_configured_directory() -> None:
    command = command_of({"argv": ["x"]}, {})

    assert (command.cwd, command.stdin, command.env) == (None, b"", {})


@pytest.mark.requirement("input.wrong-types")
@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"command": ""},
        {"command": "a", "argv": ["a"]},
        {"argv": []},
        {"argv": [1]},
        {"argv": ["a"], "env": {"A": 1}},
        {"argv": ["a"], "timeout_ms": 0},
        {"argv": ["a"], "timeout_ms": True},
        {"argv": ["a"], "surprise": 1},
    ],
)
def test_arguments_that_say_no_one_command_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(arguments, dict(ENTRY.input_schema))


@pytest.mark.anyio
@pytest.mark.parametrize(("asked_ms", "given_ms"), [(10, 10), (5_000, 5_000), (9_000, 5_000)])
async def test_a_call_may_shorten_its_time_and_never_lengthen_it(
    asked_ms: int, given_ms: int
) -> None:
    runner = FakeRunner()

    await Shell(runner=runner, environment={}).run(
        call(argv=["x"], timeout_ms=asked_ms), LIMITS, Meter()
    )

    ((name, _, limits),) = runner.commands
    assert name == "call_7"
    assert limits == replace(LIMITS, wall_ms=given_ms)


@pytest.mark.anyio
async def test_a_shorter_time_takes_no_other_limit_away() -> None:
    runner = FakeRunner()
    limited = replace(LIMITS, memory_high_bytes=1, swap_bytes=2, cpu_weight=3, io_read_bps=4)

    await Shell(runner=runner, environment={}).run(
        call(argv=["x"], timeout_ms=10), limited, Meter()
    )

    ((_, _, limits),) = runner.commands
    assert limits == replace(limited, wall_ms=10)


@pytest.mark.anyio
async def test_a_command_is_run_for_the_chain_and_with_the_priority_of_its_call() -> None:
    runner = FakeRunner()
    shell = Shell(runner=runner, environment={}, priority_of=lambda _: Priority.HIGH)

    await shell.run(call(argv=["x"]), LIMITS, Meter())

    assert runner.chains == [call().chain]
    assert runner.priorities == [Priority.HIGH]


@pytest.mark.anyio
async def test_the_answer_is_the_output_and_then_how_it_ended() -> None:
    ended = replace(
        ENDED,
        status=CallStatus.LIMIT_HIT,
        exit_code=None,
        stderr=b"half a \xe2\x82",
        explanation="memory: 64 MiB reached",
    )

    outcome = await Shell(runner=FakeRunner(ended), environment={}).run(
        call(argv=["x"]), LIMITS, Meter()
    )

    assert outcome.result.sole_text == "out\n[stderr]\nhalf a \ufffd"
    assert outcome.result.closing == "[memory: 64 MiB reached]"
    assert outcome.result.is_error
    assert outcome.result.meta == {SHELL_META: {"exit_code": None, "status": "limit_hit"}}
    assert (outcome.status, outcome.isolated) == (CallStatus.LIMIT_HIT, HELD)


def test_the_host_is_asked_for_isolation_at_the_place_of_the_command() -> None:
    runner = FakeRunner()

    isolated = Shell(runner=runner, environment={}).isolation_for(
        call(argv=["x"], cwd="/srv"), LIMITS
    )

    assert isolated == HELD
    assert runner.asked_cwd == "/srv"


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        (SHELL_RUN, {}, "give exactly one of command (a shell line) and argv"),
        (SHELL_RUN, {"command": "a", "argv": ["a"]}, "give exactly one of command"),
        (SHELL_RUN, {"command": "a", "resources": "giant"}, "low, medium, high"),
        (PYTHON_RUN, {"code": "a", "resources": 7}, "low, medium, high or an object"),
        (PYTHON_RUN, {"code": "a", "resources": {"memory": 7}}, "there is no 'memory'"),
    ],
)
def test_what_a_schema_could_only_say_in_its_own_terms_is_said_in_words(
    tool: ToolName, arguments: dict[str, object], says: str
) -> None:
    assert says in str(problem_in_words(tool, arguments))


def test_arguments_as_they_should_be_have_no_problem() -> None:
    arguments = {"argv": ["a"], "resources": {"memory_mib": 64}}

    assert problem_in_words(SHELL_RUN, arguments) is None
