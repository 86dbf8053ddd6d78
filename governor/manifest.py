"""Manifests of upstreams: what was approved, what is offered now, and how they differ."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from itertools import islice

CHANGES_MAX = 50
SHOWN_CHARS_MAX = 2_000
_NOTHING = object()

Definition = Mapping[str, object]

# What is pinned besides tools has names that no tool is exposed under.
INSTRUCTIONS = "server:instructions"
_PROMPT = "prompt:"
_PARTS = (INSTRUCTIONS, _PROMPT)


def prompt_part(name: str) -> str:
    """Return the name that a prompt has in a manifest."""
    return f"{_PROMPT}{name}"


def is_part(name: str) -> bool:
    """Tell whether a name in a manifest is one of what is pinned besides tools."""
    return name.startswith(_PARTS)


class Pin(StrEnum):
    """What is done about an upstream's manifest: trusted once, never unasked, or always."""

    FIRST_USE = "first_use"
    APPROVE = "approve"
    OFF = "off"


class Standing(StrEnum):
    """How a tool that is or was offered stands to what was approved."""

    APPROVED = "approved"
    CHANGED = "changed"
    NEW = "new"
    RENAMED = "renamed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one part of a definition was and is, as JSON text; None where it was or is not."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStanding:
    """One tool of a manifest; `was` is the name that a renamed one had."""

    name: str
    standing: Standing
    changes: tuple[Change, ...] = ()
    was: str | None = None


def digest_of(definition: Definition) -> str:
    """Return a hash that is equal exactly for equal definitions, whatever their order of keys."""
    text = json.dumps(definition, sort_keys=True, separators=(",", ":"), default=str)
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def manifest_digest(tools: Mapping[str, Definition]) -> str:
    """Return a hash of a whole manifest, whatever the order of its tools."""
    return digest_of({name: digest_of(definition) for name, definition in tools.items()})


def standings(
    approved: Mapping[str, Definition], offered: Mapping[str, Definition]
) -> tuple[ToolStanding, ...]:
    """Return how each tool stands, those that are offered first, by name."""
    gone = {
        _nameless(definition): name for name, definition in approved.items() if name not in offered
    }
    found = [_standing(name, offered[name], approved.get(name), gone) for name in sorted(offered)]
    moved = {one.was for one in found}
    removed = sorted(name for name in gone.values() if name not in moved)
    return (
        *found,
        *(ToolStanding(name=name, standing=Standing.REMOVED) for name in removed),
    )


def _standing(
    name: str, now: Definition, before: Definition | None, gone: Mapping[str, str]
) -> ToolStanding:
    if before is None:
        # The same under another name is no less a change: it may now stand in for another tool.
        was = gone.get(_nameless(now))
        standing = Standing.NEW if was is None else Standing.RENAMED
        return ToolStanding(name=name, standing=standing, was=was)
    if digest_of(before) == digest_of(now):
        return ToolStanding(name=name, standing=Standing.APPROVED)
    changes = tuple(islice(_changes("", before, now), CHANGES_MAX))
    return ToolStanding(name=name, standing=Standing.CHANGED, changes=changes)


def _nameless(definition: Definition) -> str:
    return digest_of({key: value for key, value in definition.items() if key != "name"})


def _changes(path: str, before: object, after: object) -> Iterator[Change]:
    """Yield the smallest parts that differ, by their JSON pointers."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}, key=str):
            step = str(key).replace("~", "~0").replace("/", "~1")
            yield from _changes(
                f"{path}/{step}", before.get(key, _NOTHING), after.get(key, _NOTHING)
            )
    elif before is _NOTHING or after is _NOTHING or _shown(before) != _shown(after):
        yield Change(path=path, before=_cut(before), after=_cut(after))


def _cut(value: object) -> str | None:
    if value is _NOTHING:
        return None
    text = _shown(value)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"


def _shown(value: object) -> str:
    # Escaped to ASCII, so that nothing hidden in a description stays hidden in the diff.
    return json.dumps(value, sort_keys=True, default=str)
