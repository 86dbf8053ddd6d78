"""The built-in tools `shell_run` and `python_run`: one local command in a domain of its own."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from governor.amounts import Unit
from governor.call import CallStatus, Isolated, ToolCall
from governor.fairness.claim import Priority
from governor.ids import ToolName, UpstreamName
from governor.limits import ExecutionLimits
from tool_gateway.catalog import ToolEntry
from tool_gateway.declared import RESOURCES_ARGUMENT, RESOURCES_SCHEMA, intent_in_arguments
from tool_gateway.errors import InvalidContextError
from tool_gateway.ports import Command, CommandOutcome, CommandRunner, Meter
from tool_gateway.python_run import PYTHON_RUN, entry_of, python_command_of
from tool_gateway.results import Json, Outcome, ToolResult, text_block

SHELL_RUN = ToolName("shell_run")
LOCAL = UpstreamName("local")
SHELL_META = "flyball/shell"
_SHELL = ("/bin/sh", "-c")

# What the kernel takes for a word of a command: text without a NUL.
_WORD: Json = {"type": "string", "not": {"pattern": "\\u0000"}}
_INPUT_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "command": {
            **_WORD,
            "minLength": 1,
            "description": "A shell line for /bin/sh.",
        },
        "argv": {
            "type": "array",
            "items": _WORD,
            "minItems": 1,
            "description": "A program and its arguments, run without a shell.",
        },
        "cwd": {**_WORD, "pattern": "^/", "description": "Working directory; absolute."},
        "env": {
            "type": "object",
            "additionalProperties": _WORD,
            "description": "Variables added to a minimal environment.",
        },
        "stdin": {"type": "string", "description": "Text for standard input."},
        "timeout_ms": {
            "type": "integer",
            "minimum": 1,
            "description": "A shorter time limit than the policy's; a longer one has no effect.",
        },
        RESOURCES_ARGUMENT: RESOURCES_SCHEMA,
    },
    "oneOf": [{"required": ["command"]}, {"required": ["argv"]}],
    "additionalProperties": False,
}

ENTRY = ToolEntry(
    exposed=SHELL_RUN,
    original=SHELL_RUN,
    backend=LOCAL,
    definition={
        "name": SHELL_RUN,
        "title": "Run a command",
        "description": (
            "Run one local command with limits on memory, processes, CPU and time. Give either "
            "`command` (a shell line) or `argv`. The whole process tree ends with the call. "
            "If a limit ends it, the answer says which one and what the peak was."
        ),
        "inputSchema": _INPUT_SCHEMA,
        "annotations": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
    },
)


PYTHON_ENTRY = entry_of(LOCAL)
LOCAL_ENTRIES = (ENTRY, PYTHON_ENTRY)
# Off unless a rule names them: what any of them can do is what a command can do.
LOCAL_TOOLS = tuple(entry.exposed for entry in LOCAL_ENTRIES)


class Shell:
    """Runs `shell_run` and `python_run` on the local machine."""

    name = LOCAL

    def __init__(
        self,
        *,
        runner: CommandRunner,
        environment: Mapping[str, str],
        python: str | None = None,
        priority_of: Callable[[ToolCall], Priority] = lambda _: Priority.NORMAL,
    ) -> None:
        """Take what runs commands, the minimal environment they all get, and the interpreter.

        `priority_of` tells how much a call matters beside others.
        """
        self._priority_of = priority_of
        self._runner = runner
        self._environment = environment
        self._python = python

    @property
    def unmeasurable(self) -> Mapping[Unit, str]:
        """Return what this host cannot measure."""
        return self._runner.unmeasurable

    def isolation_for(self, call: ToolCall, limits: ExecutionLimits) -> Isolated | None:
        """Return what would stand around the command."""
        cwd = call.arguments.get("cwd")
        return self._runner.isolation_for(limits, cwd=cwd if isinstance(cwd, str) else None)

    async def run(self, call: ToolCall, limits: ExecutionLimits, meter: Meter) -> Outcome:
        """Run the command and answer with its output and how it ended.

        Raises:
            UpstreamNotReachedError: it could not be started.
        """
        if call.tool == PYTHON_RUN:
            command = python_command_of(call.arguments, self._environment, self._python)
        else:
            command = command_of(call.arguments, self._environment)
        limits = _clamped(limits, call.arguments)
        ended = await self._runner.run(
            call.call_id,
            command,
            limits,
            meter,
            chain=call.chain,
            priority=self._priority_of(call),
        )
        return Outcome(
            result=_result(ended),
            status=ended.status,
            usage=ended.usage,
            isolated=ended.isolated,
            detail="; ".join((*filter(None, (ended.explanation,)), *ended.notes)),
        )


def problem_in_words(tool: ToolName, arguments: Mapping[str, object]) -> str | None:
    """Return what is wrong with arguments where a schema could only say it in its own terms."""
    if tool == SHELL_RUN and ("command" in arguments) == ("argv" in arguments):
        return (
            "arguments: give exactly one of command (a shell line) and argv (a program and its "
            "arguments)"
        )
    try:
        intent_in_arguments({RESOURCES_ARGUMENT: arguments.get(RESOURCES_ARGUMENT)})
    except InvalidContextError as error:
        return f"arguments: {error}"
    return None


def command_of(arguments: Mapping[str, object], environment: Mapping[str, str]) -> Command:
    """Return the command that schema-checked arguments describe."""
    argv = arguments.get("argv")
    line = arguments.get("command")
    words = tuple(map(str, argv)) if isinstance(argv, list) else (*_SHELL, str(line))
    added = arguments.get("env")
    cwd = arguments.get("cwd")
    return Command(
        argv=words,
        cwd=None if cwd is None else str(cwd),
        env={**environment, **(added if isinstance(added, Mapping) else {})},
        stdin=str(arguments.get("stdin", "")).encode(),
    )


def _clamped(limits: ExecutionLimits, arguments: Mapping[str, object]) -> ExecutionLimits:
    """Return the limits with the caller's own, shorter time limit."""
    asked = arguments.get("timeout_ms")
    if not isinstance(asked, (int, float)) or asked >= limits.wall_ms:
        return limits
    return replace(limits, wall_ms=int(asked))


def _result(ended: CommandOutcome) -> ToolResult:
    """Return the output as the model reads it: stdout, stderr, then how it ended if not well."""
    parts = [ended.stdout.decode(errors="replace")]
    if ended.stderr:
        parts.append("[stderr]\n" + ended.stderr.decode(errors="replace"))
    text = "\n".join(part for part in parts if part)
    return ToolResult(
        content=(text_block(text),),
        closing=f"[{ended.explanation}]" if ended.explanation else None,
        is_error=ended.status is not CallStatus.OK,
        meta={SHELL_META: {"exit_code": ended.exit_code, "status": ended.status.value}},
    )
