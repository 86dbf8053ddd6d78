"""Reading files of samples: a JSON list of objects, one object, or an object on each line."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from runtime.errors import RuntimeFaultError

FILE_BYTES_MAX = 200_000_000
_MARK = b"\xef\xbb\xbf"


class ConversationsFileError(RuntimeFaultError):
    """A file of conversations is not usable; the message says where."""


def read_samples(path: Path, *, member: str) -> Sequence[Any]:
    """Return the samples of a file; a single one is told by the `member` that each has.

    Raises:
        ConversationsFileError: the file cannot be read, is too large, or holds no such thing.
    """
    try:
        if path.stat().st_size > FILE_BYTES_MAX:
            raise ConversationsFileError(f"{path}: is larger than {FILE_BYTES_MAX} bytes")
        found = _decoded(path.read_bytes())
    except OSError as error:
        raise ConversationsFileError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ConversationsFileError(f"{path}: is no JSON: {error}") from error
    if isinstance(found, dict) and member in found:
        return [found]
    if isinstance(found, list):
        return found
    raise ConversationsFileError(
        f'{path}: is no list of objects with "{member}", nor one of them on each line'
    )


def _decoded(content: bytes) -> object:
    try:
        return json.loads(content)
    except json.JSONDecodeError:
        first, *others = content.removeprefix(_MARK).strip().splitlines() or [b""]
        if not others or not _is_object(first):
            raise
        return [_of_line(line, at) for at, line in enumerate((first, *others), 1) if line.strip()]


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _of_line(line: bytes, at: int) -> object:
    try:
        return json.loads(line)
    except ValueError as error:
        raise ValueError(f"line {at}: {error}") from error


def mapping_of(value: object, where: str) -> Mapping[str, Any]:
    """Return an object of a sample.

    Raises:
        ConversationsFileError: it is none.
    """
    if not isinstance(value, dict):
        raise ConversationsFileError(f"{where}: is no object")
    return value


def list_of(value: object, where: str) -> Sequence[Any]:
    """Return a list of a sample.

    Raises:
        ConversationsFileError: it is none.
    """
    if not isinstance(value, list):
        raise ConversationsFileError(f"{where}: is no list")
    return value


def text_of(fields: Mapping[str, Any], name: str, where: str) -> str:
    """Return a text of a sample.

    Raises:
        ConversationsFileError: it is not there, or is none.
    """
    value = fields.get(name)
    if not isinstance(value, str):
        raise ConversationsFileError(f"{where}: {name} is no text")
    return value
