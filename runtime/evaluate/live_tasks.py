"""Reading tasks for a live evaluation from JSON lines, with errors that name the line."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.errors import RuntimeFaultError

TASKS_MAX = 10_000
_TEXT_MAX = 100_000


class TasksFileError(RuntimeFaultError):
    """The file of tasks is not usable; the message names the line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A prompt, and what its answer must be: exactly a text, or a match of a pattern."""

    task_id: str
    prompt: str
    exact: str | None = None
    pattern: re.Pattern[str] | None = None

    def is_solved_by(self, answer: str) -> bool:
        """Tell whether an answer passes the check."""
        if self.pattern is not None:
            return self.pattern.search(answer) is not None
        return answer.strip() == self.exact


def read_tasks(path: Path) -> list[Task]:
    """Return the tasks in `path`, in its order.

    Raises:
        TasksFileError: the file cannot be read, or a line of it is not usable.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TasksFileError(f"{path}: cannot be read: {error}") from error
    tasks = [
        _task(line, f"{path}: line {number}")
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    if len({task.task_id for task in tasks}) != len(tasks):
        raise TasksFileError(f"{path}: two tasks have the same id; ids are unique")
    if not 2 <= len(tasks) <= TASKS_MAX:  # noqa: PLR2004 - one half teaches the other
        raise TasksFileError(f"{path}: {len(tasks)} tasks; from 2 to {TASKS_MAX} are needed")
    return tasks


def _task(line: str, where: str) -> Task:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TasksFileError(f"{where}: not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise TasksFileError(f'{where}: expected {{"id", "prompt", "check"}}')
    task_id, prompt = _text(fields, "id", where), _text(fields, "prompt", where)
    check = fields.get("check")
    if isinstance(check, str):
        check = {"exact": check}
    if not isinstance(check, dict) or len(check) != 1 or not check.keys() <= {"exact", "regex"}:
        raise TasksFileError(
            f'{where}: check: write {{"exact": "…"}} or {{"regex": "…"}}, or a text for the first'
        )
    if "exact" in check:
        return Task(task_id=task_id, prompt=prompt, exact=_text(check, "exact", where).strip())
    try:
        pattern = re.compile(_text(check, "regex", where))
    except re.error as error:
        raise TasksFileError(f"{where}: check.regex: {error}") from error
    return Task(task_id=task_id, prompt=prompt, pattern=pattern)


def _text(fields: dict[str, Any], name: str, where: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip() or len(value) > _TEXT_MAX:
        raise TasksFileError(f"{where}: {name}: expected a text of 1 to {_TEXT_MAX} characters")
    return value
