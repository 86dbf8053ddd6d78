"""Recorded conversations of agents, read from a file: one JSON list, or an object on each line."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from runtime.errors import RuntimeFaultError

# Where recordings have the messages: as the runs of tau-bench, and as requests have them.
_MEMBERS = ("traj", "messages")
_FILE_BYTES_MAX = 1 << 30
_MARK = b"\xef\xbb\xbf"

Messages = Sequence[Mapping[str, Any]]


def read_conversations(path: Path) -> list[Messages]:
    """Return the messages of each run in a file, as chat completions have them.

    Raises:
        RuntimeFaultError: the file cannot be read, or holds no runs.
    """
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise RuntimeFaultError(f"{path}: larger than {_FILE_BYTES_MAX} bytes")
        content = path.read_bytes().removeprefix(_MARK)
    except OSError as error:
        raise RuntimeFaultError(f"{path}: {error.strerror}") from error
    runs = [_messages(run, path, number) for number, run in enumerate(_runs(content, path), 1)]
    if not runs:
        raise RuntimeFaultError(f"{path}: no runs in it")
    return runs


def _runs(content: bytes, path: Path) -> Iterator[object]:
    try:
        if content.lstrip()[:1] == b"[":
            yield from msgspec.json.decode(content, type=list[object])
            return
        for line in content.splitlines():
            if line.strip():
                yield msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise RuntimeFaultError(f"{path}: cannot be read as JSON: {error}") from error


def _messages(run: object, path: Path, number: int) -> Messages:
    held = run if isinstance(run, Mapping) else {}
    found = next((held[name] for name in _MEMBERS if isinstance(held.get(name), list)), None)
    if not found or not all(
        isinstance(message, dict) and isinstance(message.get("role"), str) for message in found
    ):
        members = " or ".join(f'"{name}"' for name in _MEMBERS)
        message = f'{path}: run {number}: needs a list of messages with a "role" under {members}'
        raise RuntimeFaultError(message)
    for at, message in enumerate(found, 1):
        if not _are_calls(message.get("tool_calls")):
            said = 'a call of a tool needs a "function" with its "name" and "arguments" as texts'
            raise RuntimeFaultError(f"{path}: run {number}: message {at}: {said}")
    return tuple(found)


def _are_calls(calls: object) -> bool:
    if calls is None:
        return True
    return isinstance(calls, list) and all(
        isinstance(call, dict)
        and isinstance(function := call.get("function"), dict)
        and isinstance(function.get("name"), str)
        and isinstance(function.get("arguments"), str)
        for call in calls
    )
