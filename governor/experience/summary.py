"""Summaries by rule: what a text or a piece of JSON is about, in a few hundred characters.

No model is asked, so a summary costs nothing and the same content always has the same one.
"""

import json
import re
from collections.abc import Mapping, Sequence

SUMMARY_CHARS_MAX = 400
# As much of a content as is looked at: a summary of a long text is one of its beginning.
_LOOKED_AT_BYTES = 65_536
_JSON_BYTES_MAX = 1_048_576
_KEYS_MAX = 12
_VALUE_CHARS_MAX = 60
_NUMBERS_MAX = 6
_LEAD_CHARS_MAX = 280
# The second kind ends sentences of Chinese and Japanese, which have no space behind them.
_SENTENCE = re.compile("(?<=[.!?])\\s+|(?<=[\u3002\uff01\uff1f])")
_NUMBER = re.compile(r"(?<![\w.])[$€£]?\d[\d,]*(?:\.\d+)?%?(?![\w])")
_SPACE = re.compile(r"\s+")


def summary_of(content: bytes, media_type: str) -> str:
    """Return what `content` is about, in one line of at most `SUMMARY_CHARS_MAX` characters."""
    text = _text_of(content)
    if text is None:
        return f"{len(content)} bytes of {_plain(media_type) or 'no known kind'}"
    shape = _json_of(content, text)
    told = _lead(text) if shape is None else _shape_words(shape)
    return _cut(told) or "nothing but white space"


def cleaned(summary: str) -> str:
    """Return a summary that somebody gave, as one line that is not too long."""
    return _cut(_plain(summary))


def _text_of(content: bytes) -> str | None:
    """Return the beginning of a content as text, None where it is none."""
    head = content[:_LOOKED_AT_BYTES]
    try:
        return head.decode()
    except UnicodeDecodeError as error:
        # A character that the end cuts in two is no fault of the text.
        is_cut = len(head) < len(content) and error.start >= len(head) - 3
        return head[: error.start].decode() if is_cut else None


def _json_of(content: bytes, text: str) -> Mapping[str, object] | Sequence[object] | None:
    if text.lstrip()[:1] not in ("{", "[") or len(content) > _JSON_BYTES_MAX:
        return None
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, (dict, list)) else None


def _shape_words(shape: Mapping[str, object] | Sequence[object]) -> str:
    if isinstance(shape, Mapping):
        parts = [f"{_plain(str(key))}: {_value_words(shape[key])}" for key in _first(shape)]
        more = len(shape) - len(parts)
        return "; ".join([*parts, *([f"and {more} more"] if more else [])]) or "an empty object"
    if not shape:
        return "an empty list"
    first = shape[0]
    keys = ", ".join(_plain(str(key)) for key in _first(first)) if isinstance(first, dict) else ""
    told = f"of {keys}" if keys else f"beginning with {_value_words(first)}"
    return f"a list of {len(shape)}, {told}"


def _first(shape: Mapping[str, object]) -> list[str]:
    return list(shape)[:_KEYS_MAX]


def _value_words(value: object) -> str:
    match value:
        case dict():
            return f"{{{', '.join(_plain(str(key)) for key in list(value)[:4])}}}"
        case list():
            return f"[{len(value)}]"
        case str():
            plain = _plain(value)
            short = plain[:_VALUE_CHARS_MAX]
            return short if short == plain else f"{short}…"
        case _:
            return json.dumps(value)[:_VALUE_CHARS_MAX]


def _lead(text: str) -> str:
    """Return the first sentences, and the figures that come after them."""
    plain = _plain(text)
    lead = ""
    for sentence in _SENTENCE.split(plain):
        if lead and len(lead) + len(sentence) > _LEAD_CHARS_MAX:
            break
        lead = f"{lead} {sentence}".strip()
    lead = lead if len(lead) <= _LEAD_CHARS_MAX else f"{lead[:_LEAD_CHARS_MAX]}…"
    seen = set(_NUMBER.findall(lead))
    later = [one for one in _NUMBER.findall(plain[len(lead) :]) if one not in seen]
    figures = list(dict.fromkeys(later))[:_NUMBERS_MAX]
    return f"{lead} [{', '.join(figures)}]" if figures else lead


def _plain(text: str) -> str:
    """Return a text on one line, without what no line of text has."""
    kept = "".join(char if char.isprintable() or char.isspace() else " " for char in text)
    return _SPACE.sub(" ", kept).strip()


def _cut(text: str) -> str:
    return text if len(text) <= SUMMARY_CHARS_MAX else f"{text[: SUMMARY_CHARS_MAX - 1]}…"
