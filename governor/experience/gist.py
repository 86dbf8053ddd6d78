"""What a text is about in a few words, by rule: the values of JSON, the first words of prose."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# A value that is longer is prose, of which only the beginning is shown.
ATOM_CHARS_MAX = 40
_READ_CHARS_MAX = 200_000
_LEAVES_MAX = 4_000
_DEPTH_MAX = 24
_VALUES_SHOWN_MAX = 12
_SENTENCES_MAX = 2
_MORE = "…"
# Keys whose values name things: whoever goes on with a task needs these first.
_NAMING = re.compile(
    r"(?i:(?:^|[_\-. ])(?:ids?|name|number|no|key|code|ref|path|url|email|date)$)|I[dD]s?$"
)
# Letters and digits in one word, as identifiers are written.
_IDENTIFIER = re.compile(r"(?=[^\s]*[0-9])(?=[^\s]*[A-Za-z])[A-Za-z0-9_\-]{4,}")
_SENTENCE = re.compile(r"(?<=[.!?\u3002\uff01\uff1f])\s+|\n+")
_SPACES = re.compile(r"\s+")
_ATOM = re.compile(r"[\w@.:/#+$%&-]+(?: [\w@.:/#+$%&-]+){0,2}")

Scalar = str | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """A value that stands in JSON, under the key that is nearest to it.

    `is_listed`: it is one of a list of values, which are mostly names of things.
    """

    key: str
    text: str
    is_listed: bool = False

    @property
    def names_something(self) -> bool:
        """Tell whether it looks as if it named a thing, a place or a time."""
        return (
            self.is_listed
            or _NAMING.search(self.key) is not None
            or _IDENTIFIER.fullmatch(self.text) is not None
        )


def gist_of(text: str, *, chars_max: int) -> str:
    """Return at most `chars_max` characters that say what a text holds.

    Of JSON that is each key with its values, those that name things first; of anything else its
    first sentences.
    """
    found = values_in(text)
    if found is None:
        return _cut(_opening(text), chars_max)
    return _cut("; ".join(_columns(found)) or _shape(text), chars_max)


def values_in(text: str) -> tuple[Value, ...] | None:
    """Return the values of a text that is JSON, in its order and each once; None of any other.

    Values are atoms: numbers, and texts of a few words. Longer ones are cut to their beginning.
    """
    if len(text) > _READ_CHARS_MAX or text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError):
        return None
    found: dict[Value, None] = {}
    for value in _leaves(whole, "", depth=0, is_listed=False):
        found.setdefault(value)
        if len(found) >= _LEAVES_MAX:
            break
    return tuple(found)


def is_atom(text: str) -> bool:
    """Tell whether a text is a name, number, date or a few words: too little to instruct."""
    return len(text) <= ATOM_CHARS_MAX and _ATOM.fullmatch(text) is not None


def one_line(text: str, *, chars_max: int) -> str:
    """Return a text without line breaks, cut to `chars_max` characters."""
    return _cut(_SPACES.sub(" ", text[: 4 * chars_max + ATOM_CHARS_MAX]).strip(), chars_max)


def _leaves(value: object, key: str, *, depth: int, is_listed: bool) -> Iterator[Value]:
    if depth > _DEPTH_MAX:
        return
    match value:
        case Mapping():
            for name, held in value.items():
                yield from _leaves(held, str(name), depth=depth + 1, is_listed=False)
        case list():
            for held in value:
                yield from _leaves(held, key, depth=depth + 1, is_listed=True)
        case None | bool():
            return
        case str():
            text = one_line(value, chars_max=ATOM_CHARS_MAX)
            if text:
                yield Value(key=key, text=text, is_listed=is_listed)
        case int() | float():
            yield Value(key=key, text=str(value), is_listed=is_listed)


def _columns(values: Sequence[Value]) -> list[str]:
    """Return one text for each key, with its values; keys that name things stand first."""
    by_key: dict[str, list[str]] = {}
    naming: dict[str, bool] = {}
    for value in values:
        by_key.setdefault(value.key, []).append(value.text)
        naming[value.key] = naming.get(value.key, False) or value.names_something
    keys = sorted(by_key, key=lambda key: not naming[key])
    return [f"{key} {_listed(by_key[key])}".strip() for key in keys]


def _listed(texts: Sequence[str]) -> str:
    shown = ", ".join(texts[:_VALUES_SHOWN_MAX])
    more = len(texts) - _VALUES_SHOWN_MAX
    return shown if more <= 0 else f"{shown}, {more} more"


def _shape(text: str) -> str:
    """Return JSON that holds no values as it stands."""
    return text.strip()


def _opening(text: str) -> str:
    sentences = [part for part in _SENTENCE.split(text[:_READ_CHARS_MAX].strip()) if part.strip()]
    return _SPACES.sub(" ", " ".join(sentences[:_SENTENCES_MAX])).strip()


def _cut(text: str, chars_max: int) -> str:
    return text if len(text) <= chars_max else text[: max(0, chars_max - 1)].rstrip() + _MORE
