"""Reading attack suites from files: tools, what users asked for, and what was slipped in.

Two shapes are read. InjecAgent's folder as it is published, and a file of JSON lines, one for
each tool (`kind` = "tool"), each user's task ("task") and each injected goal ("injection") of a
suite. `benchmarks/agentdojo_tasks.py` writes that file from the package `agentdojo`.
"""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from governor.ids import ToolName, UpstreamName
from runtime.errors import RuntimeFaultError
from tool_gateway.catalog import ToolEntry

_NO_TEXT = ("integer", "number", "boolean")


class FlowCasesError(RuntimeFaultError):
    """A file of attacks is not usable; the message names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCall:
    """One call of a task, and what it answered where that is known."""

    tool: str
    arguments: Mapping[str, object] = field(default_factory=dict)
    result: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseTask:
    """What somebody wants, and the calls that do it."""

    name: str
    words: str
    calls: tuple[CaseCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """Tools, benign tasks, and attacks; each attack comes in by one of the tasks."""

    name: str
    tools: Mapping[str, ToolEntry]
    tasks: tuple[CaseTask, ...]
    attacks: tuple[tuple[CaseTask, CaseTask], ...]


def read_lines(path: Path) -> list[Suite]:
    """Return the suites in a file of JSON lines; every injection meets every task of its suite.

    Raises:
        FlowCasesError: the file cannot be read, or a line of it is not usable.
    """
    found: dict[str, dict[str, list[Any]]] = {}
    for number, line in enumerate(_text(path).splitlines(), start=1):
        try:
            row = json.loads(line)
            kinds = found.setdefault(row["suite"], {"tool": [], "task": [], "injection": []})
            of_kind = kinds[row["kind"]]
            of_kind.append(
                _entry(row["tool"]["name"], row["tool"]) if row["kind"] == "tool" else _task(row)
            )
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise FlowCasesError(f"{path}: line {number} is not usable: {error}") from error
    return [
        Suite(
            name=name,
            tools={entry.original: entry for entry in kinds["tool"]},
            tasks=tuple(kinds["task"]),
            # An injection that needs no call cannot be told from its calls.
            attacks=tuple(
                (task, goal) for task in kinds["task"] for goal in kinds["injection"] if goal.calls
            ),
        )
        for name, kinds in found.items()
    ]


def read_injecagent(folder: Path) -> list[Suite]:
    """Return a suite for each file of test cases in InjecAgent's folder.

    Raises:
        FlowCasesError: a file is missing or not usable.
    """
    tools = _tools(folder / "tools.json")
    paths = sorted(folder.glob("test_cases_*.json"))
    if not paths:
        raise FlowCasesError(f"{folder}: has no test_cases_*.json")
    suites = []
    for path in paths:
        try:
            attacks = tuple(_attacks(json.loads(_text(path))))
        except (ValueError, LookupError, TypeError, SyntaxError) as error:
            raise FlowCasesError(f"{path}: is not usable: {error!r:.200}") from error
        suites.append(
            Suite(
                name=path.stem.removeprefix("test_cases_"),
                tools=tools,
                tasks=tuple({task.words: task for task, _ in attacks}.values()),
                attacks=attacks,
            )
        )
    return suites


def _attacks(cases: Sequence[Mapping[str, Any]]) -> Iterator[tuple[CaseTask, CaseTask]]:
    for case in cases:
        reading = CaseCall(
            tool=case["User Tool"],
            arguments=ast.literal_eval(case["Tool Parameters"]),
            result=case["Tool Response"],
        )
        # The arguments of the attacker's calls are not given: only what they do is judged.
        wanted = tuple(CaseCall(tool=tool) for tool in case["Attacker Tools"])
        instruction = case["Attacker Instruction"]
        yield (
            CaseTask(name=case["User Tool"], words=case["User Instruction"], calls=(reading,)),
            CaseTask(name=instruction[:60], words=instruction, calls=wanted),
        )


def _tools(path: Path) -> dict[str, ToolEntry]:
    try:
        return {
            f"{kit['toolkit']}{tool['name']}": _entry(tool["name"], _definition(tool))
            for kit in json.loads(_text(path))
            for tool in kit["tools"]
        }
    except (ValueError, LookupError, TypeError) as error:
        raise FlowCasesError(f"{path}: is not usable: {error!r:.200}") from error


def _definition(tool: Mapping[str, Any]) -> dict[str, object]:
    properties = {
        each["name"]: {"type": each["type"] if each["type"] in _NO_TEXT else "string"}
        for each in tool["parameters"]
    }
    schema = {"type": "object", "properties": properties}
    return {"name": tool["name"], "description": tool["summary"], "inputSchema": schema}


def _entry(name: str, definition: Mapping[str, object]) -> ToolEntry:
    return ToolEntry(
        exposed=ToolName(name), original=name, backend=UpstreamName("suite"), definition=definition
    )


def _task(row: Mapping[str, Any]) -> CaseTask:
    return CaseTask(
        name=row["id"],
        words=row["words"],
        calls=tuple(
            CaseCall(
                tool=call["tool"], arguments=call["arguments"], result=call.get("result") or ""
            )
            for call in row["calls"]
        ),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise FlowCasesError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise FlowCasesError(f"{path}: is not UTF-8 text (byte {error.start})") from error
