"""Made-up experiences with the statistics of real ones: sessions about something, in words.

Every session is about a topic, a word of the shipped vectors and the eighty nearest to it in
meaning; two words of five are its topic's, the others fall off in frequency as in a language. So
texts of one topic lie near one another, as embedded texts do and Gaussian noise does not. A
question is five words of one experience and one that anybody might say.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from runtime.word_vectors.loading import VECTORS_PATH, word_vectors

SESSION = 20
_TOPICS, _NEAR, _RARE_FROM = 400, 80, 300
_WORDS_MIN, _WORDS_MAX = 8, 40
_TOPICAL = 0.4
_CHUNK = 10_000
_CHARS_MIN = 3
_WORDS_AT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """Words, the frequent ones first, and the topics made of them."""

    words: list[str]
    topics: np.ndarray

    def texts(self, count: int, *, seed: int) -> Iterator[str]:
        """Yield so many texts, twenty of a session behind one another."""
        chance = np.random.default_rng(seed)
        usual = _falling(len(self.words), 10)
        topical = _falling(_NEAR, 5)
        for begin in range(0, count, _CHUNK):
            size = min(_CHUNK, count - begin)
            sessions = chance.integers(len(self.topics), size=-(-size // SESSION))
            near = self.topics[np.repeat(sessions, SESSION)[:size]]
            common = chance.choice(len(self.words), size=(size, _WORDS_MAX), p=usual)
            chosen = chance.choice(_NEAR, size=(size, _WORDS_MAX), p=topical)
            own = np.take_along_axis(near, chosen, axis=1)
            drawn = np.where(chance.random((size, _WORDS_MAX)) < _TOPICAL, own, common)
            lengths = chance.integers(_WORDS_MIN, _WORDS_MAX, size=size)
            for row, length in zip(drawn.tolist(), lengths.tolist(), strict=True):
                yield " ".join([self.words[word] for word in row[:length]])

    def question(self, text: str, chance: np.random.Generator) -> str:
        """Return a question about `text`."""
        own = chance.choice(text.split(), 5)
        return " ".join([*own, self.words[int(chance.integers(_RARE_FROM))]])


def corpus(seed: int = 0) -> Corpus:
    """Return what texts are made of."""
    vectors = word_vectors()
    words = [word for word in _vocabulary() if word.isascii() and word.isalpha()]
    words = [word for word in words if len(word) >= _CHARS_MIN]
    places = np.array([vectors.embed(word) for word in words])
    centres = np.random.default_rng(seed).choice(
        np.arange(_RARE_FROM, len(words)), _TOPICS, replace=False
    )
    topics = np.argsort(-(places[centres] @ places.T), axis=1)[:, :_NEAR]
    return Corpus(words=words, topics=topics)


def _vocabulary() -> list[str]:
    """Return the pieces in the file of the vectors, the frequent ones first."""
    file = VECTORS_PATH.read_bytes()
    _, _, _, size = struct.unpack_from("<8sIII", file)
    return file[_WORDS_AT : _WORDS_AT + size].decode().split("\n")


def _falling(count: int, flat: int) -> np.ndarray:
    weights = 1 / (np.arange(count) + flat)
    return weights / weights.sum()
