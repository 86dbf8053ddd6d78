"""How many tokens a text can be at the most, whatever tokenizer reads it.

A token stands for at least one byte of UTF-8: that is so for byte-level vocabularies, for those
that fall back to bytes, and for those that know characters only. Two things break it, and both
are counted here: tokenizers that normalise a text first (NFC, NFKC, lower case), which makes a
few characters longer, and templates that write JSON anew, with spaces, breaks and escapes.
"""

import re
from collections import Counter
from functools import lru_cache
from unicodedata import normalize

# Characters that normalise to more are few; each is worked out once.
_GROWTHS_KEPT = 4_096
_TEXTS_KEPT = 2
# Of the escapes, the few whose character can be longer than the six bytes that it is written in.
_GROWING_ESCAPE = re.compile(
    rb"(?i)\\u(0f7[79]|20(?:3[47]|57)|22(?:2d|30)|2a0c|321[de]|33[0-9a-f]{2}|fdf[0-9a-f])"
)
_ESCAPE_BYTES = 6
# Templates write these as \u003c, six bytes for one.
_ESCAPED_IN_HTML = (b"<", b">", b"&", b"'")
_ESCAPED_MORE = _ESCAPE_BYTES - 1
_ASCII = bytes(range(128))
# Everything that can grow stands in these few ranges: most texts hold nothing of it.
_MAY_GROW = (
    "\u00a8-\u00be\u0130-\u0149\u01c4-\u01c6\u023a-\u023e\u02d8-\u02dd\u0344\u037a-\u0385"
    "\u0587\u0675-\u0678\u0958-\u095f\u09dc-\u09df\u0a33-\u0a36\u0a59-\u0a5e\u0b5c-\u0b5d"
    "\u0e33\u0eb3\u0edc-\u0edd\u0f43-\u0f81\u0f93-\u0fb9\u1f80-\u1ffc\u2033-\u2037\u2057"
    "\u2150-\u2177\u2189\u222c-\u2230\u247d-\u2487\u2a0c\u2adc\u309b-\u309f\u30ff"
    "\u3200-\u3243\u327c-\u327d\u32c0-\u32cb\u32ff-\u3389\u33a7-\u33af\u33c2-\u33c6"
    "\u33d8-\u33fe\ufa6c\ufacf-\ufad7\ufb13-\ufb4f\ufbdd-\ufd3d\ufd50-\ufdc7\ufdf0-\ufdfc"
    "\ufe71-\ufe7f\ufef5-\ufefc\U0001d15e-\U0001d164\U0001d1bb-\U0001d1c0\U0001f12a"
    "\U0001f200-\U0001f201\U0001f240-\U0001f248"
)
_NEVER_GROWS = re.compile(f"[^{_MAY_GROW}]+")
_SEPARATORS = (b",", b":")
_LINE_MARKS = (b"{", b"}", b"[", b"]", b",")
# A break and an indent, however deep, or the tag that closes what a line tells.
_TOKENS_PER_LINE = 4
# Six bytes for two are four more, twelve for four are eight.
_ESCAPED_PER_BYTE = 2


def growth(content: bytes) -> int:
    """Return how many bytes longer a tokenizer's own normalisation can make a text.

    In JSON, characters may be written as escapes; those are seen as well.
    """
    # One byte is looked for much faster than two.
    more = _growth_of_escapes(content) if b"\\" in content and b"\\u" in content else 0
    if content.isascii():
        return more
    # Without what is ASCII, the rest is still whole characters: a large image costs nothing here.
    return more + _growth_of_text(content.translate(None, delete=_ASCII))


def rewritten_more(content: bytes) -> int:
    """Return how many more tokens JSON can be when its objects are written anew inside a text.

    Separators get a space, and characters that mean something in HTML become escapes.
    """
    separators = sum(content.count(separator) for separator in _SEPARATORS)
    escaped = sum(content.count(character) for character in _ESCAPED_IN_HTML)
    return separators + _ESCAPED_MORE * escaped


def indented_more(content: bytes) -> int:
    """Return how many more tokens compact JSON can be when it is written line by line.

    A line begins where a value, an object or a list does or ends; what is not ASCII may become
    escapes of six bytes for two.
    """
    lines = sum(content.count(mark) for mark in _LINE_MARKS)
    beyond_ascii = 0 if content.isascii() else len(content.translate(None, delete=_ASCII))
    return _TOKENS_PER_LINE * lines + _ESCAPED_PER_BYTE * beyond_ascii


# A request is looked at for one tier after another.
@lru_cache(maxsize=_TEXTS_KEPT)
def _growth_of_text(written: bytes) -> int:
    text = _NEVER_GROWS.sub("", written.decode(errors="replace"))
    return sum(
        count * max(0, _grown_bytes(character) - len(character.encode()))
        for character, count in Counter(text).items()
    )


def _growth_of_escapes(content: bytes) -> int:
    return sum(
        count * max(0, _grown_bytes(chr(int(code, 16))) - _ESCAPE_BYTES)
        for code, count in Counter(_GROWING_ESCAPE.findall(content)).items()
    )


@lru_cache(maxsize=_GROWTHS_KEPT)
def _grown_bytes(character: str) -> int:
    """Return the bytes of the longest text that a tokenizer can make of a character."""
    return max(
        len(normalize(form, cased).encode())
        for cased in (character, character.lower(), character.casefold())
        for form in ("NFC", "NFKC")
    )
