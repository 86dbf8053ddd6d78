"""The built-in tool `python_run`: Python source as a command of an interpreter."""

from collections.abc import Mapping, Sequence

from governor.ids import ToolName, UpstreamName
from tool_gateway.catalog import ToolEntry
from tool_gateway.declared import RESOURCES_ARGUMENT, RESOURCES_SCHEMA
from tool_gateway.errors import UpstreamNotReachedError
from tool_gateway.ports import Command
from tool_gateway.results import Json

PYTHON_RUN = ToolName("python_run")
# The interpreter reads the source from its standard input and leaves the rest of it to the
# program: so the source may be larger than a word of a command line can be, is in no list of
# processes, and a program can have input all the same. What the program finds is what it would
# find behind `python3 -c`: `__main__`, its arguments, a traceback that shows its lines.
_BOOT = """\
def _begin():
    import os, sys
    left, parts = int(sys.argv.pop(1)), []
    while left:
        part = os.read(0, min(left, 1 << 20))
        if not part:
            sys.exit("the source was cut off")
        parts.append(part)
        left -= len(part)
    source = b"".join(parts)
    sys.argv[0] = name = "<python_run>"
    def tell(kind, error, trace):
        import linecache, traceback
        text = source.decode("utf-8", "replace")
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        while trace is not None and trace.tb_frame.f_code.co_filename == "<string>":
            trace = trace.tb_next
        traceback.print_exception(kind, error, trace)
    sys.excepthook = tell
    del globals()["_begin"]
    return compile(source, name, "exec", dont_inherit=True)
exec(_begin())
"""

_WORD: Json = {"type": "string", "not": {"pattern": "\\u0000"}}
_INPUT_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "code": {"type": "string", "minLength": 1, "description": "Python source text."},
        "args": {
            "type": "array",
            "items": _WORD,
            "description": "Arguments: sys.argv[1:] of the program.",
        },
        "stdin": {"type": "string", "description": "Text for standard input."},
        "cwd": {**_WORD, "pattern": "^/", "description": "Working directory; absolute."},
        "env": {
            "type": "object",
            "additionalProperties": _WORD,
            "description": "Variables added to a minimal environment.",
        },
        "timeout_ms": {
            "type": "integer",
            "minimum": 1,
            "description": "A shorter time limit than the policy's; a longer one has no effect.",
        },
        RESOURCES_ARGUMENT: RESOURCES_SCHEMA,
    },
    "required": ["code"],
    "additionalProperties": False,
}


def entry_of(backend: UpstreamName) -> ToolEntry:
    """Return the tool as it is offered by what runs local commands."""
    return ToolEntry(
        exposed=PYTHON_RUN,
        original=PYTHON_RUN,
        backend=backend,
        definition={
            "name": PYTHON_RUN,
            "title": "Run Python",
            "description": (
                "Run a Python program given as `code`, with limits on memory, processes, CPU and "
                "time. Print what you want to see. The whole process tree ends with the call. "
                "If a limit ends it, the answer says which one and what the peak was."
            ),
            "inputSchema": _INPUT_SCHEMA,
            "annotations": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
        },
    )


def python_command_of(
    arguments: Mapping[str, object], environment: Mapping[str, str], python: str | None
) -> Command:
    """Return the command that runs the source of schema-checked arguments.

    Raises:
        UpstreamNotReachedError: there is no interpreter.
    """
    if python is None:
        raise UpstreamNotReachedError(
            "this machine has no python3 where system programs are; an administrator can name "
            "an interpreter: local.python"
        )
    # A character that is half a pair has no bytes; the interpreter says what is wrong with it.
    source = str(arguments["code"]).encode(errors="surrogatepass")
    words, added = arguments.get("args"), arguments.get("env")
    given: Sequence[object] = words if isinstance(words, list) else ()
    cwd = arguments.get("cwd")
    return Command(
        argv=(python, "-c", _BOOT, str(len(source)), *map(str, given)),
        cwd=None if cwd is None else str(cwd),
        env={**environment, **(added if isinstance(added, Mapping) else {})},
        stdin=source + str(arguments.get("stdin", "")).encode(),
    )
