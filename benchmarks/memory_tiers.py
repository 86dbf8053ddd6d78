"""How well each plan of a search answers, and whether a router that learns does better.

    python -m benchmarks.memory_tiers --locomo FILE [--most 10] [--tokens-max 1024] [--json]

Each question of FILE (LoCoMo, categories 1 to 4) is searched by every plan. Its quality is the
share of its evidence that is shown within the bound, its cost the tokens shown. The router learns
from the other conversations, each time from the one plan that was drawn, and is then held against
the best mixture of fixed plans, and of any fixed number of passages, that shows as many tokens:
leaving one conversation out, the interval by drawing questions anew. Nothing that is learned here
is kept.
"""

import argparse
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import numpy.typing as npt

from governor.experience.passages import Passage, packed, sentences_for
from governor.experience.recall import (
    around,
    asks_again,
    expanded_of,
    ordered,
    pool_of,
    with_surroundings,
    words_again,
)
from governor.experience.search import MemoryTier
from governor.experience.stages import PLANS, Plan
from governor.experience.tier_choice import (
    BELIEVED,
    SEARCHED,
    SearchProfile,
    context_of,
    features_of,
    nothing_learned,
    probe_of,
)
from governor.experience.tokens import tokens_of
from governor.learning.bandit import Bandit, Lesson
from governor.retrieval.analysis import Trait, index_terms, traits_of
from governor.retrieval.query import QueryParts, query_parts
from governor.retrieval.shelf import Shelf, ShelfEntry
from governor.retrieval.vectors import StaticVectors
from runtime.word_vectors.loading import word_vectors

Table = npt.NDArray[np.float64]
CATEGORIES = (1, 2, 3, 4)
SENTENCE_TOKENS = 64
DRAWN = 500
NUMBERS = (1, 2, 4, 6, 8, 14)
PRICES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
# Plans that ask a model are not run: what a model writes is not known here.
NAMES = tuple(name for name, plan in PLANS.items() if not plan.needs_model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, and where its evidence is."""

    text: str
    evidence: frozenset[int]


class Conversation:
    """One conversation on a shelf, and the questions to it."""

    def __init__(self, told: dict[str, Any], vectors: StaticVectors) -> None:
        """Take a conversation as the file has it."""
        self.vectors = vectors
        self.texts: list[str] = []
        self.sessions: list[int] = []
        places: dict[str, int] = {}
        spoken = told["conversation"]
        entries = []
        for session in range(1, 100):
            for turn in spoken.get(f"session_{session}", ()):
                text = f"{turn['text']} {turn.get('blip_caption', '')}".strip()
                places[turn["dia_id"]] = len(self.texts)
                entries.append(
                    ShelfEntry(
                        number=len(self.texts),
                        session=str(session),
                        actor=turn["speaker"],
                        at_ms=session * 86_400_000,
                        terms=index_terms(text),
                        traits=traits_of(text),
                        vector=vectors.embed(text),
                    )
                )
                self.texts.append(text)
                self.sessions.append(session)
        self.words = [tuple(entry.terms.split()) for entry in entries]
        self.shelf = Shelf(axes=vectors.axes)
        self.shelf.add(entries)
        self.asked = [
            Asked(text=one["question"], evidence=frozenset(places[name] for name in known))
            for one in told["qa"]
            if one["category"] in CATEGORIES
            and (known := [name for name in one["evidence"] if name in places])
        ]

    def passage(self, number: int, score: float) -> Passage:
        """Return a turn as a passage."""
        text = self.texts[number]
        return Passage(
            number=number,
            score=score,
            address=text,
            words=self.words[number],
            tokens=tokens_of(text),
            session=str(self.sessions[number]),
        )

    def found(self, parts: QueryParts, most: int) -> list[Passage]:
        """Return what the shelf finds."""
        return [self.passage(*one) for one in self.shelf.search(parts, most=most)]

    def near(self, number: int, steps: int) -> list[Passage]:
        """Return the turns around one, the nearest first."""
        numbers = [
            other
            for step in range(1, steps + 1)
            for other in (number - step, number + step)
            if 0 <= other < len(self.texts) and self.sessions[other] == self.sessions[number]
        ]
        return [self.passage(other, 0.0) for other in numbers]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a plan shows for a question."""

    quality: float
    tokens: int
    latency_us: float


def shown_by(
    plan: Plan, asked: Asked, conversation: Conversation, *, most: int, tokens_max: int
) -> Shown:
    """Return what a plan shows of the evidence, and what it takes."""
    began = time.perf_counter_ns()
    vectors = None if plan.retrieve is MemoryTier.LOW else conversation.vectors
    parts = query_parts(asked.text, vectors)
    found = conversation.found(parts, pool_of(plan, most))
    again: list[Passage] = []
    if asks_again(plan) and (words := words_again(parts.terms, found)):
        second = QueryParts(terms=(*parts.terms, *words), traits=parts.traits)
        again = conversation.found(second, pool_of(plan, most))
    order = ordered(plan, parts.terms, found, again=again, most=most)
    near = {
        one.number: conversation.near(one.number, around(plan)) for one in expanded_of(plan, order)
    }
    passages = [_told(plan, one, parts, conversation) for one in with_surroundings(order, near)]
    fits = packed(passages, tokens_max=tokens_max)
    latency_us = (time.perf_counter_ns() - began) / 1_000
    seen = {one.number for one in fits.shown}
    # What is shown of a turn counts by the words that are left of it: a gist is no evidence of
    # what it leaves out.
    kept = {one.number: one.score for one in fits.shown}
    quality = sum(kept[number] for number in asked.evidence & seen) / len(asked.evidence)
    return Shown(quality=quality, tokens=fits.tokens, latency_us=latency_us)


def _told(plan: Plan, one: Passage, parts: QueryParts, conversation: Conversation) -> Passage:
    """Return a passage as it is told; its score becomes the share of its words that is left."""
    text = conversation.texts[one.number]
    told = text
    if plan.summarise is MemoryTier.MID:
        told = sentences_for(
            text,
            parts.terms,
            lambda part: tuple(index_terms(part).split()),
            tokens_max=SENTENCE_TOKENS,
        )
    left = len(index_terms(told).split()) / max(1, len(one.words))
    return Passage(
        number=one.number,
        score=min(1.0, left),
        address=one.address,
        words=one.words,
        tokens=tokens_of(told),
    )


def question_of(
    asked: Asked, conversation: Conversation, *, most: int, tokens_max: int
) -> SearchProfile:
    """Return what a router is told of a question, by the words that it is found by alone."""
    parts = query_parts(asked.text)
    traits = traits_of(asked.text)
    return SearchProfile(
        words=tuple(asked.text.lower().replace("?", "").split()),
        has_number=bool(traits & Trait.NUMBER),
        has_time=bool(traits & Trait.ASKS_WHEN),
        items=len(conversation.texts),
        tokens=tokens_max,
        tokens_max=tokens_max,
        probe=probe_of(parts.terms, conversation.found(parts, most)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """For each question a row, for each plan a column; `fold` is the conversation.

    `by_number` is what the middle plan shows of any fixed `NUMBERS` of passages, to be held against
    a choice that spends as much; `lengths` is about how long what the cheapest search found is.
    """

    quality: Table
    tokens: Table
    by_number: Table
    tokens_by_number: Table
    latency_us: Table
    lengths: Table
    contexts: Table
    fold: Table


def tables_of(conversations: Sequence[Conversation], *, most: int, tokens_max: int) -> Tables:
    """Return what every plan shows for every question."""
    rows: list[list[Shown]] = []
    numbers: list[list[Shown]] = []
    contexts, folds = [], []
    for fold, conversation in enumerate(conversations):
        for asked in conversation.asked:
            numbers.append(
                [
                    shown_by(PLANS["mid"], asked, conversation, most=number, tokens_max=tokens_max)
                    for number in NUMBERS
                ]
            )
            rows.append(
                [
                    shown_by(PLANS[name], asked, conversation, most=most, tokens_max=tokens_max)
                    for name in NAMES
                ]
            )
            contexts.append(
                context_of(question_of(asked, conversation, most=most, tokens_max=tokens_max))
            )
            folds.append(fold)
    return Tables(
        quality=np.array([[one.quality for one in row] for row in rows]),
        tokens=np.array([[float(one.tokens) for one in row] for row in rows]),
        by_number=np.array([[one.quality for one in row] for row in numbers]),
        tokens_by_number=np.array([[float(one.tokens) for one in row] for row in numbers]),
        latency_us=np.array([[one.latency_us for one in row] for row in rows]),
        lengths=np.array(contexts)[:, -1],
        contexts=np.array(contexts),
        fold=np.array(folds, dtype=np.float64),
    )


def taught(tables: Tables, rows: Sequence[int], dice: Random, *, teachings: int) -> Bandit:
    """Return what is learned where each question is asked so often, each time by another plan."""
    bandit = nothing_learned()
    for _ in range(teachings):
        for row in dice.sample(list(rows), len(rows)):
            at = dice.randrange(len(NAMES))
            bandit.learn(
                Lesson(
                    arm=SEARCHED,
                    context=features_of(tables.contexts[row], PLANS[NAMES[at]]),
                    reward=tables.quality[row, at] - BELIEVED[NAMES[at]],
                    weight=1.0,
                    period=0,
                )
            )
    return bandit


def routed(
    tables: Tables, *, tokens_max: int, teachings: int, seed: int
) -> dict[float, npt.NDArray[np.int64]]:
    """Return for each price of a thousand tokens the plan that each question is searched by."""
    chosen = {price: np.zeros(len(tables.fold), dtype=np.int64) for price in PRICES}
    believed = np.array([BELIEVED[name] for name in NAMES])
    for fold in np.unique(tables.fold):
        seen = np.flatnonzero(tables.fold != fold)
        rows = [int(row) for row in seen]
        bandit = taught(tables, rows, Random(seed), teachings=teachings)  # noqa: S311
        tokens = tables.tokens[seen].mean(axis=0)
        for row in np.flatnonzero(tables.fold == fold):
            value = believed + expected_of(bandit, tables.contexts[row])
            longer = tables.lengths[row] / tables.lengths[seen].mean()
            for price in PRICES:
                cost = price * np.minimum(longer * tokens, tokens_max) / 1_000
                chosen[price][row] = int(np.argmax(value - cost))
    return chosen


def expected_of(bandit: Bandit, context: Table) -> Table:
    """Return by how much each plan is expected to differ from what is believed of it."""
    features = [features_of(context, PLANS[name]) for name in NAMES]
    return np.array([bandit.expected(each, [SEARCHED]).mean[0] for each in features])


def mixed(spend: float, tokens: Table, quality: Table) -> float:
    """Return the quality of the best mixture of fixed plans that shows so many tokens."""
    # Below the cheapest there is nothing to mix: it is held against that itself.
    best = float(np.max(np.where(tokens <= max(spend, tokens.min()), quality, 0.0)))
    for one in range(len(tokens)):
        for other in range(len(tokens)):
            if tokens[one] < spend < tokens[other]:
                share = (spend - tokens[one]) / (tokens[other] - tokens[one])
                best = max(best, float((1 - share) * quality[one] + share * quality[other]))
    return best


def matched(tables: Tables, chosen: npt.NDArray[np.int64], dice: Random) -> dict[str, object]:
    """Return how a routed choice compares with what is fixed and shows as many tokens."""
    rows = np.arange(len(chosen))
    quality, tokens = tables.quality[rows, chosen], tables.tokens[rows, chosen]
    named = [at for at, name in enumerate(NAMES) if name in ("low", "mid", "mid_many")]
    fixed = {
        "low_mid_many": (tables.tokens[:, named], tables.quality[:, named]),
        "any_plan_or_number": (
            np.concatenate([tables.tokens, tables.tokens_by_number], axis=1),
            np.concatenate([tables.quality, tables.by_number], axis=1),
        ),
    }

    def gain(drawn: npt.NDArray[np.int64], by: str) -> float:
        spent, found = fixed[by]
        spend = float(tokens[drawn].mean())
        best = mixed(spend, spent[drawn].mean(axis=0), found[drawn].mean(axis=0))
        return float(quality[drawn].mean()) - best

    draws = [
        np.array(dice.choices(range(len(rows)), k=len(rows)), dtype=np.int64) for _ in range(DRAWN)
    ]
    gains = {}
    for by in fixed:
        low, high = np.quantile([gain(drawn, by) for drawn in draws], [0.025, 0.975])
        gains[by] = {
            "gain": round(gain(rows, by), 4),
            "ci95": [round(float(low), 4), round(float(high), 4)],
        }
    counts = np.bincount(chosen, minlength=len(NAMES))
    return {
        "tokens": round(float(tokens.mean()), 1),
        "quality": round(float(quality.mean()), 4),
        "over_the_best_mixture_of": gains,
        "plans": {NAMES[at]: int(count) for at, count in enumerate(counts) if count},
    }


def measured(path: Path, *, most: int, tokens_max: int, teachings: int) -> dict[str, object]:
    """Return what fixed plans and the router make of a file."""
    vectors = word_vectors()
    told = json.loads(path.read_text())
    conversations = [Conversation(one, vectors) for one in told]
    tables = tables_of(conversations, most=most, tokens_max=tokens_max)
    dice = Random(7)  # noqa: S311 - a bootstrap
    return {
        "n": len(tables.fold),
        "searches_learned_from": teachings * len(tables.fold) * 4 // 5,
        "most": most,
        "tokens_max": tokens_max,
        "fixed": {
            name: {
                "quality": round(float(tables.quality[:, at].mean()), 4),
                "tokens": round(float(tables.tokens[:, at].mean()), 1),
                "p50_us": round(float(np.median(tables.latency_us[:, at])), 0),
            }
            for at, name in enumerate(NAMES)
        },
        "best_in_hindsight": round(float(tables.quality.max(axis=1).mean()), 4),
        "routed": {
            str(price): matched(tables, chosen, dice)
            for price, chosen in routed(
                tables, tokens_max=tokens_max, teachings=teachings, seed=1
            ).items()
        },
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--locomo", type=Path, required=True)
    parser.add_argument("--most", type=int, default=10)
    parser.add_argument("--tokens-max", type=int, default=1_024)
    parser.add_argument("--teachings", type=int, default=10)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    result = measured(
        asked.locomo, most=asked.most, tokens_max=asked.tokens_max, teachings=asked.teachings
    )
    print(json.dumps(result, indent=None if asked.json else 1))


if __name__ == "__main__":
    main()
