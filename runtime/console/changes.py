"""What differs between two states of a thing, field by field."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

SHOWN_CHARS_MAX = 600
_NESTED_MAX = 4

State = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One field as it was and is; None where it was or is not."""

    field: str
    before: str | None
    after: str | None


def changes(before: State | None, after: State | None) -> list[Change]:
    """Return the fields that differ; of something new or removed, all that are not null."""
    old, new = dict(_fields(before or {})), dict(_fields(after or {}))
    return [
        Change(field=name, before=old.get(name), after=new.get(name))
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


def _fields(state: State, under: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield each field by its path; what is stored as JSON text is opened."""
    for name, value in state.items():
        path = f"{under}.{name}" if under else name
        found = _opened(value)
        if isinstance(found, dict) and found and depth < _NESTED_MAX:
            yield from _fields(found, path, depth + 1)
        elif found is not None:
            yield path, _shown(found)


def _opened(value: object) -> object:
    if not isinstance(value, str) or value[:1] not in {"{", "["}:
        return value
    try:
        opened: object = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return opened


def _shown(value: object) -> str:
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        text = ", ".join(value) or "none"
    elif isinstance(value, str):
        text = value
    else:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"
