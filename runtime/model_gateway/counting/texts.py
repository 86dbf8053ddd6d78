"""How many tokens a text can be at the most, whatever tokenizer reads it.

A token stands for at least one byte of UTF-8: that is so for byte-level vocabularies, for those
that fall back to bytes, and for those that know characters only. Two things break it, and both
are counted here: tokenizers that normalise a text first (NFC, NFKC, lower case), which makes a
few characters longer, and templates that write JSON anew, with spaces, breaks and escapes.
"""

import re
from functools import lru_cache
from unicodedata import normalize

# Characters that normalise to more are few; each is worked out once.
_GROWTHS_KEPT = 4_096
_ESCAPE = re.compile(rb"\\u([0-9a-fA-F]{4})")
_ESCAPE_BYTES = 6
_SURROGATES = range(0xD800, 0xE000)
# Templates write these as \u003c, six bytes for one.
_ESCAPED_IN_HTML = (b"<", b">", b"&", b"'")
_ESCAPED_MORE = _ESCAPE_BYTES - 1
_ASCII = bytes(range(128))
# Most of what is written in other scripts than the Latin: letters, syllables, ideographs, their
# punctuation and pictures. It saves looking at each.
_NEVER_GROWS = re.compile(
    "[\u00c0-\u012f\u0386-\u0586\u05d0-\u0674\u3000-\u309a\u30a0-\u30fe\u3400-\uf8ff"
    "\uff00-\ufffd\U0001f300-\U0001faff\U00020000-\U0002f7ff]+"
)
_SEPARATORS = (b",", b":")


def growth(content: bytes) -> int:
    """Return how many bytes longer a tokenizer's own normalisation can make a text.

    In JSON, characters may be written as escapes; those are seen as well.
    """
    # One byte is looked for much faster than two.
    more = _growth_of_escapes(content) if b"\\" in content and b"\\u" in content else 0
    if content.isascii():
        return more
    # Without what is ASCII, the rest is still whole characters: a large image costs nothing here.
    text = _NEVER_GROWS.sub("", content.translate(None, delete=_ASCII).decode(errors="replace"))
    for character in set(text):
        grown = _grown_bytes(character) - len(character.encode())
        if grown > 0:
            more += grown * text.count(character)
    return more


def rewritten_more(content: bytes) -> int:
    """Return how many more tokens JSON can be when its objects are written anew inside a text.

    Separators get a space, and characters that mean something in HTML become escapes.
    """
    separators = sum(content.count(separator) for separator in _SEPARATORS)
    escaped = sum(content.count(character) for character in _ESCAPED_IN_HTML)
    return separators + _ESCAPED_MORE * escaped


def indented_more(content: bytes) -> int:
    """Return how many more tokens compact JSON can be when it is written line by line.

    A line of it is short, and its break and indent are a token each; what is not ASCII may
    become escapes of six bytes for two.
    """
    return (1 if content.isascii() else 2) * len(content)


def _growth_of_escapes(content: bytes) -> int:
    codes = [int(found, 16) for found in _ESCAPE.findall(content)]
    more = 0
    for code in set(codes):
        # Two escapes of a pair are twelve bytes, which no character outgrows.
        if code in _SURROGATES:
            continue
        grown = _grown_bytes(chr(code)) - _ESCAPE_BYTES
        if grown > 0:
            more += grown * codes.count(code)
    return more


@lru_cache(maxsize=_GROWTHS_KEPT)
def _grown_bytes(character: str) -> int:
    """Return the bytes of the longest text that a tokenizer can make of a character."""
    return max(
        len(normalize(form, cased).encode())
        for cased in (character, character.lower(), character.casefold())
        for form in ("NFC", "NFKC")
    )
