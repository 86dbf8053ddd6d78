"""Bounds on the schemas of strangers: what one may ask of whoever checks a value against it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import jsonschema
import jsonschema_rs
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend

NODES_MAX = 20_000
DEPTH_MAX = 64
PATTERNS_MAX = 200
PATTERN_CHARS_MAX = 2_000
# Keywords that are looked at before a check is given up: a fraction of a second.
STEPS_MAX = 100_000
_BACKTRACKS_MAX = 10_000
REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})
_LINEAR = jsonschema_rs.RegexOptions()
_BACKTRACKING = jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACKS_MAX)
_left: ContextVar[int] = ContextVar("steps left of the check under way")


class TooMuchWorkError(Exception):
    """The check takes longer than a check may."""


def fault_of(schema: Mapping[str, object]) -> str | None:
    """Return why a schema is not worked with, as far as its size and its references tell."""
    waiting: list[tuple[object, int]] = [(schema, 1)]
    nodes = patterns = 0
    while waiting:
        node, depth = waiting.pop()
        nodes += 1
        if nodes > NODES_MAX:
            return f"it has more than {NODES_MAX} parts"
        if depth > DEPTH_MAX:
            return f"it is nested more than {DEPTH_MAX} deep"
        if isinstance(node, list):
            waiting.extend((each, depth + 1) for each in node)
        elif isinstance(node, Mapping):
            waiting.extend((each, depth + 1) for each in node.values())
            written = _patterns_of(node)
            patterns += len(written)
            if patterns > PATTERNS_MAX:
                return f"it has more than {PATTERNS_MAX} patterns"
            if (fault := _fault_of_patterns(written)) is not None:
                return fault
    return None


def foreign_reference(schema: object) -> str | None:
    """Return a reference to somewhere else, which is never followed; None without any."""
    if isinstance(schema, list):
        return next(filter(None, map(foreign_reference, schema)), None)
    if not isinstance(schema, Mapping):
        return None
    for key, said in schema.items():
        if key in REFERENCES and isinstance(said, str) and "://" in said.partition("#")[0]:
            return said
    return next(filter(None, map(foreign_reference, schema.values())), None)


def _fault_of_patterns(patterns: Iterable[str]) -> str | None:
    for pattern in patterns:
        if len(pattern) > PATTERN_CHARS_MAX:
            return f"a pattern has more than {PATTERN_CHARS_MAX} characters"
        try:
            _matcher(pattern)
        except ValueError:
            return f"{pattern!r:.100} is no regular expression, or too large a one"
    return None


def _patterns_of(node: Mapping[str, object]) -> list[str]:
    pattern, named = node.get("pattern"), node.get("patternProperties")
    written = [pattern] if isinstance(pattern, str) else []
    return [*written, *map(str, named)] if isinstance(named, Mapping) else written


def linear_options() -> Any:
    """Return how compiled validators match patterns: in time linear in the text."""
    return _LINEAR


@lru_cache(maxsize=16)
def bounded(kind: Any) -> Any:
    """Return a kind of validator whose checks end: in steps, in patterns, in comparisons."""
    checks: dict[str, Any] = {**kind.VALIDATORS}
    checks["pattern"] = _pattern
    if "patternProperties" in checks:
        checks["patternProperties"] = _pattern_properties
    if "uniqueItems" in checks:
        checks["uniqueItems"] = _unique_items
    counted = {name: _counted(check) for name, check in checks.items()}
    make: Any = extend  # the library leaves it untyped
    return make(kind, validators=counted)


@contextmanager
def counted_steps() -> Iterator[None]:
    """Have the checks inside of the block end with `TooMuchWorkError` after `STEPS_MAX`."""
    token = _left.set(STEPS_MAX)
    try:
        yield
    finally:
        _left.reset(token)


def _counted(check: Any) -> Callable[..., Iterator[ValidationError]]:
    def checked(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
        left = _left.get(STEPS_MAX) - 1
        if left < 0:
            raise TooMuchWorkError
        _left.set(left)
        yield from check(validator, value, instance, schema) or ()

    return checked


def _pattern(_: Any, pattern: str, instance: object, __: Any) -> Iterator[ValidationError]:
    if isinstance(instance, str) and not _fits(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(
    validator: Any, patterns: Mapping[str, Any], instance: object, _: Any
) -> Iterator[ValidationError]:
    if not isinstance(instance, Mapping):
        return
    for pattern, below in patterns.items():
        for key, value in instance.items():
            if _fits(pattern, key):
                yield from validator.descend(value, below, path=key, schema_path=pattern)


def _unique_items(_: Any, wanted: Any, instance: object, __: Any) -> Iterator[ValidationError]:
    if not wanted or not isinstance(instance, list):
        return
    seen = {json.dumps(item, sort_keys=True, default=str) for item in instance}
    if len(seen) < len(instance):
        yield ValidationError("the items are not unique")


def _fits(pattern: str, text: str) -> bool:
    try:
        return _matcher(pattern)(text)
    except ValueError:  # it cannot be told within the bound
        return False


@lru_cache(maxsize=512)
def _matcher(pattern: str) -> Callable[[str], bool]:
    """Return what tells whether a text has a match; only look-arounds cost it backtracking."""
    schema = {"pattern": pattern}
    try:
        return jsonschema_rs.Draft202012Validator(schema, pattern_options=_LINEAR).is_valid
    except ValueError:
        return jsonschema_rs.Draft202012Validator(schema, pattern_options=_BACKTRACKING).is_valid


# Without a dialect of its own a schema is of this one, as the protocol says.
USUAL_KIND: type[Validator] = jsonschema.Draft202012Validator
