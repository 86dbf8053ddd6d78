"""The stem of an English word, by Porter's algorithm of 1980.

What the algorithm calls the measure of a stem is how many times a run of vowels is followed by a
run of consonants. A suffix is taken off only where what is left measures enough to be a word.
"""

import re
from functools import lru_cache

_LENGTH_MIN = 3
_CACHED_MAX = 32_768
_SHORT = re.compile(r"[^aeiou][aeiouy][^aeiouwxy]$")
_VOWEL = re.compile("[aeiouy]")
_MEASURE = re.compile("[aeiou]+[^aeiou]+")
# A y between or after consonants is a vowel.
_Y_VOWEL = re.compile("(?<=[^aeiou])y")

_DOUBLE_SUFFIXES = (
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("isation", "ize"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("logi", "log"),
)
_SUFFIXES = (
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
)
_LAST_SUFFIXES = (
    *("ement", "ance", "ence", "able", "ible", "ment", "ant", "ent", "ism", "ate", "iti"),
    *("ous", "ive", "ize", "al", "er", "ic", "ou"),
)


@lru_cache(maxsize=_CACHED_MAX)
def stem(word: str) -> str:
    """Return the stem of a lower-case word; short words and other scripts stay as they are."""
    if len(word) < _LENGTH_MIN or not word.isascii():
        return word
    word = _without_past(_without_plural(word))
    if word.endswith("y") and _VOWEL.search(word[:-1]):
        word = word[:-1] + "i"
    word = _replaced(word, _DOUBLE_SUFFIXES)
    word = _replaced(word, _SUFFIXES)
    return _without_end(_without_last(word))


def _measure(word: str) -> int:
    return len(_MEASURE.findall(_Y_VOWEL.sub("i", word)))


def _without_plural(word: str) -> str:
    if word.endswith("sses"):
        return word[:-2]
    if word.endswith("ies"):
        return word[:-3] + ("i" if len(word) > len("ties") else "ie")
    if word.endswith("s") and not word.endswith(("ss", "us")):
        return word[:-1]
    return word


def _without_past(word: str) -> str:
    if word.endswith("eed"):
        return word[:-1] if _measure(word[:-3]) > 0 else word
    for suffix in ("ed", "ing"):
        rest = word.removesuffix(suffix)
        if rest != word and _VOWEL.search(rest):
            return _restored(rest)
    return word


def _restored(rest: str) -> str:
    """Return what stood before a past or continuous form: hop of hopp, file of fil."""
    if rest.endswith(("at", "bl", "iz")):
        return rest + "e"
    if rest[1:] and rest[-1] == rest[-2] and rest[-1] not in "lszaeiou":
        return rest[:-1]
    if _measure(rest) == 1 and _SHORT.search(rest):
        return rest + "e"
    return rest


def _replaced(word: str, suffixes: tuple[tuple[str, str], ...]) -> str:
    for suffix, by in suffixes:
        if word.endswith(suffix):
            rest = word.removesuffix(suffix)
            return rest + by if _measure(rest) > 0 else word
    return word


def _without_last(word: str) -> str:
    for suffix in _LAST_SUFFIXES:
        if word.endswith(suffix):
            rest = word.removesuffix(suffix)
            return rest if _measure(rest) > 1 else word
    if word.endswith(("sion", "tion")) and _measure(word[:-3]) > 1:
        return word[:-3]
    return word


def _without_end(word: str) -> str:
    if word.endswith("e"):
        rest = word[:-1]
        measure = _measure(rest)
        if measure > 1 or (measure == 1 and not _SHORT.search(rest)):
            word = rest
    if word.endswith("ll") and _measure(word) > 1:
        return word[:-1]
    return word
