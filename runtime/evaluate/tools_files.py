"""Reading tools and the requests for them from JSON lines, with errors that name the line."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from runtime.errors import RuntimeFaultError
from tool_gateway.discovery.texts import ToolText

LINES_MAX = 100_000
_TEXT_MAX = 100_000
_STEPS_MAX = 1_000

T = TypeVar("T")


class ToolsFileError(RuntimeFaultError):
    """A file of tools or requests is not usable; the message names the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Every tool of a catalogue, each with its id."""

    ids: tuple[str, ...]
    texts: tuple[ToolText, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One request and the tools that answer it: one of each group is needed.

    `line` is where the file has it; the steps of one task share it.
    """

    request: str
    line: int = 0
    wanted: tuple[frozenset[str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """The steps that can be judged, and how many there were besides."""

    steps: tuple[Step, ...]
    left_out: int


def read_corpus(path: Path) -> Corpus:
    """Return the tools in `path`: one a line with id, name, description, server, inputSchema.

    Raises:
        ToolsFileError: the file cannot be read, or a line of it is not usable.
    """
    tools = _read(path, _tool)
    numbers: dict[str, int] = {}
    for number, (tool_id, _) in tools:
        if tool_id in numbers:
            raise ToolsFileError(
                f"{path}, line {number}: id {tool_id!r:.80} stands in line {numbers[tool_id]} too"
            )
        numbers[tool_id] = number
    return Corpus(
        ids=tuple(tool_id for _, (tool_id, _) in tools),
        texts=tuple(text for _, (_, text) in tools),
    )


def read_requests(path: Path, corpus: Corpus) -> Requests:
    """Return the steps in `path`: one request a line, or one task with its steps.

    A task whose steps and tools do not go together one by one has no step that can be judged,
    nor has a step whose tool is `missing` from the corpus; they are counted.

    Raises:
        ToolsFileError: the file cannot be read, or a line of it is not usable.
    """
    known, steps, left_out = frozenset(corpus.ids), list[Step](), 0
    for number, fields in _read(path, lambda fields, _: fields):
        where = f"{path}, line {number}"
        found = _steps(fields, where)
        left_out += found.left_out
        for step in found.steps:
            strange = sorted(frozenset().union(*step.wanted) - known)
            if strange:
                raise ToolsFileError(f"{where}: gold: no tool of the corpus is {strange[0]!r:.80}")
            steps.append(replace(step, line=number))
    if not steps:
        raise ToolsFileError(f"{path}: no line has a step with a tool of its own")
    return Requests(steps=tuple(steps), left_out=left_out)


def _read(path: Path, made: Callable[[dict[str, Any], str], T]) -> list[tuple[int, T]]:
    try:
        # Not splitlines: JSON may hold line separators of other alphabets.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise ToolsFileError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ToolsFileError(f"{path}: is not UTF-8 text (byte {error.start})") from error
    if len(lines) > LINES_MAX:
        raise ToolsFileError(f"{path}: more than {LINES_MAX} lines; evaluate a sample")
    found = []
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{path}, line {number}"
            found.append((number, made(_object(line, where), where)))
    if not found:
        raise ToolsFileError(f"{path}: is empty")
    return found


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ToolsFileError(f"{where}: is not JSON: {error}") from error
    except RecursionError as error:
        raise ToolsFileError(f"{where}: is nested too deeply") from error
    if not isinstance(fields, dict):
        raise ToolsFileError(f"{where}: expected an object, got {line.strip()[:40]}")
    return fields


def _tool(fields: Mapping[str, Any], where: str) -> tuple[str, ToolText]:
    schema = fields.get("inputSchema")
    if schema is not None and not isinstance(schema, dict):
        raise ToolsFileError(f"{where}: inputSchema: expected an object")
    return _text(fields, "id", where), ToolText(
        name=_text(fields, "name", where),
        description=_optional(fields, "description", where),
        server=_optional(fields, "server", where),
        about=_optional(fields, "server_desc", where),
        schema=schema or {},
    )


def _steps(fields: Mapping[str, Any], where: str) -> Requests:
    groups = _groups(fields.get("gold"), where)
    if "steps" not in fields:
        request = _text(fields, "query", where)
        if not groups:
            return Requests(steps=(), left_out=1)
        return Requests(steps=(Step(request=request, wanted=groups),), left_out=0)
    said = _texts(fields, "steps", where)
    tools = _texts(fields, "tools", where)
    if not fields.get("aligned", len(said) == len(tools)):
        return Requests(steps=(), left_out=len(said))
    if len(said) != len(tools):
        raise ToolsFileError(f"{where}: {len(said)} steps and {len(tools)} tools do not align")
    missing = set(_texts(fields, "missing", where)) if "missing" in fields else set()
    present = [tool for tool in dict.fromkeys(tools) if tool not in missing]
    if len(present) != len(groups):
        raise ToolsFileError(
            f"{where}: gold: {len(groups)} groups for {len(present)} different tools; each tool "
            "that is not missing has one, in the order of `tools`"
        )
    wanted = dict(zip(present, groups, strict=True))
    steps = [
        Step(request=request, wanted=(wanted[tool],))
        for request, tool in zip(said, tools, strict=True)
        if tool in wanted
    ]
    return Requests(steps=tuple(steps), left_out=len(said) - len(steps))


def _groups(gold: object, where: str) -> tuple[frozenset[str], ...]:
    """Return the groups of tools that answer alike; a bare id is a group of its own."""
    if not isinstance(gold, list):
        raise ToolsFileError(f"{where}: gold: expected a list of ids, or of lists of ids")
    groups = []
    for entry in gold:
        ids = entry if isinstance(entry, list) else [entry]
        if not ids or not all(isinstance(tool_id, str) for tool_id in ids):
            raise ToolsFileError(f"{where}: gold: {str(entry)[:80]} is neither an id nor ids")
        groups.append(frozenset(ids))
    return tuple(groups)


def _texts(fields: Mapping[str, Any], name: str, where: str) -> list[str]:
    values = fields.get(name)
    if (
        not isinstance(values, list)
        or len(values) > _STEPS_MAX
        or not all(isinstance(value, str) for value in values)
    ):
        raise ToolsFileError(f"{where}: {name}: expected a list of at most {_STEPS_MAX} texts")
    return values


def _text(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > _TEXT_MAX:
        raise ToolsFileError(f"{where}: {name}: expected a text of 1 to {_TEXT_MAX} characters")
    return value


def _optional(fields: Mapping[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    return "" if value is None or value == "" else _text(fields, name, where)
