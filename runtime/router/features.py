"""What a prompt looks like to the router: its meaning, its form, the state of its session."""

import re
from collections import Counter
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from math import log, log1p
from zlib import crc32

import numpy as np

from governor.learning.blocks import Widths
from governor.learning.likeness import Rows
from governor.retrieval.vectors import StaticVectors

# What a file of a fitted router must agree with: raise it when a feature changes its meaning.
FEATURES_VERSION = 1
# Words fall into so many bins, whichever they are: no vocabulary has to be learned or kept.
WORD_BINS = 512
_BINS_CACHED_MAX = 32_768
# A prompt is read to here: what decides about a tier stands at its beginning, and a prompt of
# megabytes must not hold up the next.
TEXT_CHARS_MAX = 8_192

_WORD = re.compile(r"[^\W\d_]+|\d|[^\w\s]|_")
_NUMBER = re.compile(r"\d+")
_OPTION = re.compile(r"^\(?[A-Ja-j][.):]\s", re.MULTILINE)
_CODE = re.compile(r"```|\bdef |\bclass |\breturn\b|[{};]\s*$", re.MULTILINE)
_MATHS_SIGNS = "=+*/^<>\\"
_MATHS_WORDS = ("sqrt", "frac")
_FAULTS = ("Traceback", "Error", "Exception")
_FAIL = re.compile(r"\bfail")
_CAPITAL = re.compile(r"\b[A-Z]")
# What a prompt asks for, by its words; one of each row is enough.
_ASKS = tuple(
    frozenset(words.split())
    for words in (
        "what", "which", "why", "how", "who when where", "calculate compute find solve",
        "prove derive", "write implement generate", "not except unless", "if suppose assume",
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStanding:
    """How a session stands when a tier is chosen; what is not known stays zero or None."""

    turn: int = 0
    errors: int = 0
    loop_signals: int = 0
    tokens_so_far: int = 0
    last_tier_rank: int | None = None
    last_tier_failed: bool | None = None

    def numbers(self) -> list[float]:
        """Return the state as numbers of like size."""
        return [
            log1p(self.turn),
            log1p(self.errors),
            log1p(self.loop_signals),
            log1p(self.tokens_so_far) / 10,
            -1.0 if self.last_tier_rank is None else float(self.last_tier_rank),
            0.0 if self.last_tier_failed is None else (1.0 if self.last_tier_failed else -1.0),
        ]


NO_STATE = SessionStanding()


def form_of(text: str, words: AbstractSet[str]) -> list[float]:
    """Return the form of a text, which has these words: how long it is and what stands in it."""
    chars = max(1, len(text))
    parts = text.split()
    letters = sum(map(len, parts)) / max(1, len(parts))
    return [
        log1p(len(text)),
        log1p(len(parts)),
        min(letters, 20.0),
        log1p(len(_NUMBER.findall(text))),
        log1p(text.count("?")),
        log1p(text.count("\n")),
        log1p(len(_OPTION.findall(text))),
        log1p(len(_CODE.findall(text))),
        log1p(_maths(text)),
        log1p(_faults(text)),
        len(_CAPITAL.findall(text)) / max(1, len(parts)),
        0.0 if text.isascii() else sum(not char.isascii() for char in text) / chars,
        log1p(text.count('"') + text.count("\u201c")),
        *(float(not asked.isdisjoint(words)) for asked in _ASKS),
        float("__" in text or "blank" in words),
    ]


def _maths(text: str) -> int:
    # Counting is many times as fast as a pattern, and most texts have none of the words.
    found = sum(map(text.count, _MATHS_SIGNS))
    for word in _MATHS_WORDS:
        if word in text:
            found += len(re.findall(rf"\b{word}\b", text))
    return found


def _faults(text: str) -> int:
    found = sum(map(text.count, _FAULTS))
    return found + len(_FAIL.findall(text)) if "fail" in text else found


class PromptReader:
    """Reads prompts into rows: meaning, words, form and state of the session, in this order."""

    def __init__(self, vectors: StaticVectors | None) -> None:
        """Take the word vectors; without them meaning is not seen."""
        self._vectors = vectors
        self.widths = Widths(
            meaning=0 if vectors is None else vectors.axes,
            words=WORD_BINS,
            form=len(form_of("", frozenset())),
            state=len(NO_STATE.numbers()),
        )

    def read(self, text: str, state: SessionStanding = NO_STATE) -> Rows:
        """Return the features of a prompt, `widths.total` of them."""
        seen = text[:TEXT_CHARS_MAX]
        found = np.zeros(self.widths.total, dtype=np.float32)
        meaning = self.widths.meaning
        if self._vectors is not None:
            found[:meaning] = self._vectors.embed(seen)
        words = found[meaning : meaning + WORD_BINS]
        counted = Counter(_WORD.findall(seen.lower()))
        for word, times in counted.items():
            words[_bin_of(word)] += 1.0 + log(times)
        found[meaning + WORD_BINS :] = [*form_of(seen, counted.keys()), *state.numbers()]
        return found


@lru_cache(maxsize=_BINS_CACHED_MAX)
def _bin_of(word: str) -> int:
    # Not hash(): that differs from process to process.
    return crc32(word.encode(errors="replace")) % WORD_BINS
