"""Worked examples that are shown to a model with a question that is like theirs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec
import numpy as np

from governor.learning.examples import (
    EXAMPLES_MAX,
    ExampleCost,
    ExamplesSeen,
    examples_worth,
)
from governor.retrieval.vectors import StaticVectors
from governor.tiers import ModelTier
from runtime.errors import ConfigError
from runtime.model_gateway.model_request import ModelRequest
from runtime.router.conversation import last_words, with_words_before_question
from runtime.router.effort import Written
from runtime.router.fencing import Marker, fenced, rule_of
from runtime.router.strategy_terms import QUESTION_CHARS_MAX

FILE_BYTES_MAX = 32 * 1024 * 1024
EXAMPLES_KEPT_MAX = 20_000
EXAMPLE_CHARS_MAX = 4_000
_BYTES_PER_TOKEN = 4
_TOKENS_AROUND = 24


class _Line(msgspec.Struct, frozen=True):
    """A worked example as a line of the file states it."""

    query: str
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A question with a good answer to it, and how alike it is to the one that is asked."""

    query: str
    answer: str
    likeness: float = 0.0

    @property
    def tokens(self) -> int:
        """Return roughly how many tokens the example adds to a prompt."""
        return (len(self.query) + len(self.answer)) // _BYTES_PER_TOKEN + _TOKENS_AROUND


class ExampleSource(Protocol):
    """Wherever worked examples come from."""

    def nearest(self, text: str, *, most: int) -> tuple[Example, ...]:
        """Return the examples whose questions are most like `text`, the nearest first."""
        ...


class ExampleFile:
    """The worked examples of a file, found by the meaning of their questions."""

    def __init__(self, examples: Sequence[Example], vectors: StaticVectors) -> None:
        """Take the examples; each question is embedded once."""
        self._examples = tuple(examples)
        self._vectors = vectors
        rows = [vectors.embed(example.query) for example in self._examples]
        self._rows = np.stack(rows) if rows else np.zeros((0, vectors.axes), dtype=np.float32)

    def __len__(self) -> int:
        """Return how many examples there are."""
        return len(self._examples)

    def nearest(self, text: str, *, most: int) -> tuple[Example, ...]:
        """Return the examples whose questions are most like `text`, the nearest first."""
        if not self._examples or most <= 0:
            return ()
        alike = self._rows @ self._vectors.embed(text)
        places = np.argsort(-alike, kind="stable")[:most]
        return tuple(
            Example(
                query=self._examples[place].query,
                answer=self._examples[place].answer,
                likeness=float(alike[place]),
            )
            for place in places.tolist()
        )


def read_examples(path: Path) -> tuple[Example, ...]:
    """Return the worked examples in a file of JSON lines.

    Raises:
        ConfigError: the file cannot be read, is too large, or a line of it is no example.
    """
    try:
        size = path.stat().st_size
        if size > FILE_BYTES_MAX:
            raise ConfigError(f"{path}: has more than {FILE_BYTES_MAX} bytes; leave examples out")
        content = path.read_bytes()
    except OSError as error:
        message = f"{path}: cannot be read: {error.strerror}. strategy.examples.file names it."
        raise ConfigError(message) from error
    lines = [line for line in content.splitlines() if line.strip()]
    if len(lines) > EXAMPLES_KEPT_MAX:
        raise ConfigError(f"{path}: has more than {EXAMPLES_KEPT_MAX} examples; leave some out")
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            read = msgspec.json.decode(line, type=_Line)
        except (msgspec.DecodeError, ValueError) as error:
            message = (
                f'{path}: example {number}: {error}; write {{"query": "...", "answer": "..."}}'
            )
            raise ConfigError(message) from error
        found.append(
            Example(query=read.query[:EXAMPLE_CHARS_MAX], answer=read.answer[:EXAMPLE_CHARS_MAX])
        )
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A request with the examples that were worth showing, and how many that are."""

    written: Written
    count: int


def with_examples(
    request: ModelRequest,
    tier: ModelTier,
    source: ExampleSource,
    *,
    seen: ExamplesSeen,
    value_microusd: int,
    marker: Marker,
) -> Shown:
    """Return the request with as many examples as pay at the price of `tier`.

    A tier without a price is refused anyway, and one that is free is shown all that is like.
    """
    none = Shown(written=Written(request=request), count=0)
    most = EXAMPLES_MAX if tier.examples is None else min(tier.examples, EXAMPLES_MAX)
    if most == 0 or tier.price is None:
        return none
    found = source.nearest(last_words(request, QUESTION_CHARS_MAX), most=most)
    price = tier.price
    count = examples_worth(
        [
            ExampleCost(
                likeness=example.likeness,
                cost_microusd=price.cost_microusd(input_tokens=example.tokens, output_tokens=0),
            )
            for example in found
        ],
        seen=seen,
        value_microusd=value_microusd,
        most=most,
    )
    if count == 0:
        return none
    shown = found[:count]
    mark = marker("\n".join(example.query + example.answer for example in shown))
    words = [f"Worked examples of similar questions. {rule_of('example', mark)}"]
    # The nearest stands last, next to the question itself.
    for example in reversed(shown):
        told = f"Question: {example.query}\nAnswer: {example.answer}"
        words.append(fenced(told, kind="example", mark=mark, chars_max=2 * EXAMPLE_CHARS_MAX))
    changed = with_words_before_question(request, "\n".join(words))
    if changed is None:
        return none
    return Shown(written=Written(request=changed, why=f"examples: {count}"), count=count)
