"""Whether two answers say the same, as far as it can be told without a model."""

import re
from collections.abc import Sequence

import msgspec

from runtime.router.said import Said

_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*")
_SHORT_WORDS = 12
# Longer answers are alike that share this much of their words.
_SHARED_MIN = 0.5
_WORDS_MAX = 2_000


def alike_count(said: Said, others: Sequence[Said]) -> int:
    """Return how many of the others say the same as an answer."""
    return sum(are_alike(said, other) for other in others)


def are_alike(one: Said, other: Said) -> bool:
    """Tell whether two answers come to the same.

    Calls of tools have to be the same calls, JSON the same value. Short texts are the same where
    their words are, and longer ones where they end on the same number or share most words.
    """
    if one.tools or other.tools:
        return one.tools == other.tools
    value = _value(one.text)
    if value is not None:
        return value == _value(other.text)
    words, others = _words(one.text), _words(other.text)
    if min(len(words), len(others)) <= _SHORT_WORDS:
        return words == others or _last_number(one.text) == _last_number(other.text) is not None
    numbers = _last_number(one.text), _last_number(other.text)
    if None not in numbers and numbers[0] != numbers[1]:
        return False
    mine, theirs = set(words), set(others)
    return len(mine & theirs) >= _SHARED_MIN * len(mine | theirs)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())[:_WORDS_MAX]


def _last_number(text: str) -> str | None:
    found = _NUMBER.findall(text)
    return found[-1].replace(",", "") if found else None


def _value(text: str) -> object:
    """Return the JSON object or list in a text; None where it is none."""
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None
    return value if isinstance(value, (dict, list)) else None
