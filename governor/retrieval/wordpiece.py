"""The pieces of a text's words, as BERT's uncased models cut them.

Devlin et al. (2019): a text is cleaned, lowered, freed of accents and cut at spaces and
punctuation; each word is then cut from the left into the longest pieces that the vocabulary
knows, those inside a word marked with two hashes. A word that cannot be cut to its end is unknown.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

TEXT_CHARS_MAX = 20_000
_WORD_CHARS_MAX = 100
_CACHED_MAX = 32_768
_INSIDE = "##"
# What Unicode calls a symbol and BERT punctuation: $ + < = > ^ ` | ~
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_PLAIN = re.compile(r"[ -~\t\n\r]*")
_PLAIN_WORD = re.compile(r"[0-9a-z]+|[!-/:-@\[-`{-~]")
# Blocks of ideographs, each of which is a word of its own.
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPieces:
    """A vocabulary of pieces, each with its number."""

    def __init__(self, numbers: Mapping[str, int]) -> None:
        """Take the number of each piece; those inside a word begin with two hashes."""
        self._numbers = numbers
        self._chars_max = max(map(len, numbers), default=0)
        self._cut = lru_cache(maxsize=_CACHED_MAX)(self._pieces_of)

    def numbers_of(self, text: str) -> list[int]:
        """Return the numbers of the text's pieces in order; unknown words have none.

        A text is read to `TEXT_CHARS_MAX`.
        """
        found: list[int] = []
        for word in words_of(text[:TEXT_CHARS_MAX]):
            found.extend(self._cut(word))
        return found

    def _pieces_of(self, word: str) -> tuple[int, ...]:
        if len(word) > _WORD_CHARS_MAX:
            return ()
        found, begin = [], 0
        while begin < len(word):
            number, begin = self._longest(word, begin)
            if number is None:
                return ()
            found.append(number)
        return tuple(found)

    def _longest(self, word: str, begin: int) -> tuple[int | None, int]:
        """Return the number of the longest piece from `begin`, and where that ends."""
        mark = _INSIDE if begin else ""
        for end in range(min(len(word), begin + self._chars_max), begin, -1):
            number = self._numbers.get(mark + word[begin:end])
            if number is not None:
                return number, end
        return None, begin


def words_of(text: str) -> Iterable[str]:
    """Return the words and the signs of a text, lower-case and without accents."""
    # Most texts are plain: the same in a fifth of the time.
    return _PLAIN_WORD.findall(text.lower()) if _PLAIN.fullmatch(text) else _any_words(text)


def _any_words(text: str) -> Iterator[str]:
    for part in "".join(map(_cleaned, text)).split():
        plain = part.lower()
        if not plain.isascii():
            plain = _without_accents(plain)
        yield from _cut_at_signs(plain)


@lru_cache(maxsize=_CACHED_MAX)
def _cleaned(char: str) -> str:
    kind = unicodedata.category(char)
    if char in "\t\n\r" or kind == "Zs":
        return " "
    # Controls, formats, private and unassigned characters, halves of pairs.
    if char == "\ufffd" or kind.startswith("C"):
        return ""
    point = ord(char)
    if any(first <= point <= last for first, last in _IDEOGRAPHS):
        return f" {char} "
    return char


def _without_accents(word: str) -> str:
    parts = unicodedata.normalize("NFD", word)
    return "".join(char for char in parts if unicodedata.category(char) != "Mn")


def _cut_at_signs(word: str) -> Iterator[str]:
    begin = 0
    for at, char in enumerate(word):
        if char in _PUNCTUATION or (
            not char.isascii() and unicodedata.category(char).startswith("P")
        ):
            if at > begin:
                yield word[begin:at]
            yield char
            begin = at + 1
    if begin < len(word):
        yield word[begin:]
