"""What a text kept in memory is found by: its index terms, a question's terms, and its traits.

Index terms keep the order of the text, with repetitions, so that whoever has them can also see
which words stood together. They hold letters and digits only: no operator of a query language.
"""

import re
import unicodedata
from enum import IntFlag
from itertools import islice

from governor.retrieval.irregular import REGULAR
from governor.retrieval.stemmer import stem

TEXT_CHARS_MAX = 20_000
QUERY_TERMS_MAX = 512
_WORD_CHARS_MAX = 64
_WORD = re.compile(r"[a-z]+|\d+|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[^\W\d_a-z]+")
# Scripts that write no spaces: pairs of characters do for words there.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_FUNCTION_WORDS = """
a an the and or but if of to in on at for with by from as is are was were be been being am do
does did has have had having will would can could should shall may might must it its this that
these those there here i me my mine we us our ours you your yours he him his she her hers they
them their theirs so than then too very just about into over also not no nor yes oh s t m re ve
ll d don isn wasn didn doesn won what which who whom whose when where why how
"""
_STOP = frozenset(_FUNCTION_WORDS.split())
_QUESTION = re.compile(r"[?\uff1f]\s*(\[[^\]]*\]\s*)?$")
_SELF = re.compile(r"\b(i|my|me|mine|we|our|us|myself)\b|[\u6211\u54b1]")
_TIME = re.compile(
    r"\b(yesterday|today|tomorrow|tonight|last|next|ago|days?|weeks?|months?|years?|weekends?"
    r"|mornings?|afternoons?|evenings?|nights?|mon|tues|wednes|thurs|fri|satur|sun)(day)?\b"
    r"|\b(january|february|march|april|june|july|august|september|october|november|december)\b"
    r"|\b(19|20)\d\d\b|\b\d{1,2}(:\d\d)?\s?(am|pm)\b"
    r"|[\u6628\u4eca\u660e\u524d\u540e][\u5929\u5e74\u65e5]|[\u6708\u5468\u661f]"
)
_WHEN = re.compile(
    r"^\W*(when\b|how long|how many (days|weeks|months|years)"
    r"|(in |on |at |since |by |during |around |for )?(what|which)\s(\w+\s)?"
    r"(time|date|day|week|month|year|season))"
    r"|\u4ec0\u4e48\u65f6|\u4f55\u65f6|\u51e0[\u70b9\u53f7\u6708]|\u54ea[\u5929\u5e74]"
)
_IMAGE = re.compile(r"\[image:|!\[|\.(png|jpe?g|gif|webp)\b")
_NUMBER = re.compile(
    r"\d|\b(one|two|three|four|five|six|seven|eight|nine|ten|once|twice|dozen|couple|few|several)\b"
    r"|[\u4e00\u4e8c\u4e09\u56db\u4e94\u516d\u4e03\u516b\u4e5d\u5341]"
)
_MANY = re.compile(
    r"how (many|much|old|long|often|far|big|tall)\b|what (number|age)\b|\u51e0|\u591a\u5c11"
)


class Trait(IntFlag):
    """What may be seen of a text without understanding it; several make one number."""

    QUESTION = 1
    SELF = 2
    TIME = 4
    IMAGE = 8
    NUMBER = 16
    ASKS_WHEN = 32
    ASKS_NUMBER = 64


_SIGNS = (
    (Trait.QUESTION, _QUESTION),
    (Trait.SELF, _SELF),
    (Trait.TIME, _TIME),
    (Trait.IMAGE, _IMAGE),
    (Trait.NUMBER, _NUMBER),
    (Trait.ASKS_WHEN, _WHEN),
    (Trait.ASKS_NUMBER, _MANY),
)


def index_terms(text: str) -> str:
    """Return the terms that a text is found by, in its order, with one space between two."""
    return " ".join(_base(word) for word in _words(text) if word not in _STOP)


def query_terms(text: str) -> tuple[str, ...]:
    """Return the terms that a question asks for, each once, at most `QUERY_TERMS_MAX`."""
    asked = dict.fromkeys(_base(word) for word in _words(text) if word not in _STOP)
    return tuple(islice(asked, QUERY_TERMS_MAX))


def traits_of(text: str) -> int:
    """Return the traits of a text as one number: the sum of its `Trait`s."""
    lowered = text[:TEXT_CHARS_MAX].lower()
    return sum(trait for trait, sign in _SIGNS if sign.search(lowered))


def _base(word: str) -> str:
    return stem(REGULAR.get(word) or REGULAR.get(word.removesuffix("s"), word))


def _words(text: str) -> list[str]:
    found: list[str] = []
    for match in _WORD.finditer(_plain(text[:TEXT_CHARS_MAX])):
        word = match.group()[:_WORD_CHARS_MAX]
        if _UNSPACED.match(word):
            found.extend(_pairs(word))
        else:
            found.append(word)
    return found


def _pairs(word: str) -> list[str]:
    return [word[at : at + 2] for at in range(len(word) - 1)] or [word]


def _plain(text: str) -> str:
    """Return the text lower-case and, in Latin letters, without accents."""
    if text.isascii():
        return text.lower()
    apart = unicodedata.normalize("NFKD", text.lower())
    joined = "".join(char for char in apart if unicodedata.category(char) != "Mn")
    return unicodedata.normalize("NFC", joined)
