"""The terms of a text: stems, the concepts they stand for, and fragments of its words.

Three views of one text find what the others miss. Stems are exact; concepts let a "picture" meet
an "image"; fragments of four characters let a misspelt or compounded word meet the plain one.
"""

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from governor.retrieval.stemmer import stem
from governor.retrieval.thesaurus import CONCEPTS

TEXT_CHARS_MAX = 20_000
_FRAGMENT_CHARS = 4
_WORD_CHARS_MAX = 64
_CACHED_MAX = 32_768
# Identifiers fall apart at underscores and changes of case: getHTTPStatus_v2.
_WORD = re.compile(
    r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"
    r"|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[^\W\d_a-zA-Z]+"
)
# Scripts that write no spaces: pairs of characters do for words there.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_STOP_WORDS = """
a an the of to in on at for and or is are be been was were this that these those it its as
by with from into about i me my we us our you your he she they them their what which who
how when where why do does did can could should would will may must not no any all some
please want need here there then than so such if but also use using used via
"""
_STOP = frozenset(_STOP_WORDS.split())

Counts = Counter[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How often each term of each view occurs."""

    stems: Counts
    concepts: Counts
    fragments: Counts


def words_of(text: str) -> list[str]:
    """Return the words of a text, lower-case, without those that carry no meaning."""
    found: list[str] = []
    for match in _WORD.finditer(text[:TEXT_CHARS_MAX]):
        word = match.group()[:_WORD_CHARS_MAX]
        if _UNSPACED.match(word):
            found.extend(word[at : at + 2] for at in range(len(word) - 1))
            found.extend(word)
        elif (lowered := word.lower()) not in _STOP:
            found.append(lowered)
    return found


def terms_of(text: str) -> Terms:
    """Return the terms of a text."""
    stems, concepts, fragments = Counter[str](), Counter[str](), Counter[str]()
    for word, count in Counter(words_of(text)).items():
        base = stem(word)
        stems[base] += count
        for concept in CONCEPTS.get(base, ()):
            concepts[concept] += count
        for fragment in _fragments(word):
            fragments[fragment] += count
    return Terms(stems=stems, concepts=concepts, fragments=fragments)


@lru_cache(maxsize=_CACHED_MAX)
def _fragments(word: str) -> tuple[str, ...]:
    """Return every run of four characters, the ends of the word marked."""
    marked = f"^{word}$"
    last = max(1, len(marked) - _FRAGMENT_CHARS + 1)
    return tuple(marked[at : at + _FRAGMENT_CHARS] for at in range(last))
