"""Measuring tool search: for each step of a task, whether the tool that it takes is found.

Nothing is learned from the requests: each is asked of a fresh index, alone. The interval of a
recall is a bootstrap over the requests; that of the difference to the baseline is paired, which
resamples requests with what both searches made of them.
"""

import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import log2
from statistics import fmean, median
from typing import Any

from governor.ids import SessionId, TenantId
from governor.retrieval.fields import FieldTerms, WeightedFields
from governor.retrieval.vectors import StaticVectors
from runtime.evaluate.tools_files import Corpus, Step
from tool_gateway.discovery.definitions import LIMIT_DEFAULT
from tool_gateway.discovery.finder import FITTING_WEIGHT, USUAL_WEIGHT
from tool_gateway.discovery.index import ToolIndex
from tool_gateway.discovery.texts import ToolText
from tool_gateway.discovery.uses import PastUses

DEPTH = 10
RESAMPLES = 10_000
_RECALLS = (1, 5, 10)
_JUDGED_AT = 5
_NS_PER_MS = 1_000_000
_ONE = TenantId("one")

Search = Callable[[str], Sequence[str]]
Timer = Callable[[], int]
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """How a search did, request by request, and how long each took."""

    recalls: Mapping[int, Sequence[float]]
    ndcgs: Sequence[float]
    shown: Sequence[int]
    took_ns: Sequence[int]

    def shape(self, *, seed: int) -> dict[str, Any]:
        """Return the JSON of `flyball eval tools`."""
        return {
            **{f"recall@{depth}": fmean(found) for depth, found in self.recalls.items()},
            "ndcg@10": fmean(self.ndcgs),
            "recall@5_ci95": list(interval(self.recalls[_JUDGED_AT], seed=seed)),
            "mean_tools_shown": fmean(self.shown),
            "p50_ms": median(self.took_ns) / _NS_PER_MS,
            "n": len(self.ndcgs),
        }

    def gain_over(self, other: "Measured", *, seed: int) -> tuple[float, Interval]:
        """Return how much more is found among five, and the paired interval of that."""
        pairs = zip(self.recalls[_JUDGED_AT], other.recalls[_JUDGED_AT], strict=True)
        gains = [ours - theirs for ours, theirs in pairs]
        return fmean(gains), interval(gains, seed=seed)


def measure(search: Search, steps: Sequence[Step], *, timer: Timer) -> Measured:
    """Return how `search` does on `steps`; it gives the ids of tools, the best first."""
    recalls: dict[int, list[float]] = {depth: [] for depth in _RECALLS}
    ndcgs, shown, took_ns = [], [], []
    for step in steps:
        began = timer()
        found = search(step.request)[:DEPTH]
        took_ns.append(timer() - began)
        ranks = _ranks(found, step)
        for depth, values in recalls.items():
            values.append(sum(rank <= depth for rank in ranks) / len(step.wanted))
        ideal = sum(1 / log2(rank + 1) for rank in range(1, min(len(step.wanted), DEPTH) + 1))
        ndcgs.append(sum(1 / log2(rank + 1) for rank in ranks) / ideal)
        shown.append(min(len(found), LIMIT_DEFAULT))
    return Measured(recalls=recalls, ndcgs=ndcgs, shown=shown, took_ns=took_ns)


def _ranks(found: Sequence[str], step: Step) -> list[int]:
    """Return at which rank each group of wanted tools is met first, of those that are met."""
    firsts = (
        next((rank for rank, tool_id in enumerate(found, start=1) if tool_id in group), None)
        for group in step.wanted
    )
    return [rank for rank in firsts if rank is not None]


def interval(values: Sequence[float], *, seed: int) -> Interval:
    """Return the 95 % bootstrap interval of the mean."""
    chance = random.Random(seed)  # noqa: S311 - a resample is no secret
    size = len(values)
    means = sorted(fmean(chance.choices(values, k=size)) for _ in range(RESAMPLES))
    return means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]


def own_search(corpus: Corpus, *, vectors: StaticVectors | None = None) -> Search:
    """Return the search that `tools_search` does, without past use."""
    index = ToolIndex(corpus.texts, vectors=vectors)
    return lambda request: [corpus.ids[hit.number] for hit in index.search(request, limit=DEPTH)]


def learned_recalls(
    corpus: Corpus, steps: Sequence[Step], *, vectors: StaticVectors | None = None
) -> Measured:
    """Return how the search does on each line once the other lines have been worked on.

    What is learned of a step is what the sidecar would learn: that a search was answered, and
    that one of the tools it showed was then called with success.
    """
    index, by_line = ToolIndex(corpus.texts, vectors=vectors), defaultdict[int, list[Step]](list)
    for step in steps:
        by_line[step.line].append(step)
    shown = {step.request: _shown(index, corpus, step.request) for step in steps}
    ranked: dict[tuple[int, str], Sequence[str]] = {}
    for line in by_line:
        uses = PastUses()
        for other in steps:
            if other.line != line:
                _relive(uses, other, shown[other.request])
        for step in by_line[line]:
            ranked[line, step.request] = _lifted(index, corpus, uses, step.request)
    ordered = iter([ranked[step.line, step.request] for step in steps])
    return measure(lambda _: next(ordered), steps, timer=lambda: 0)


def _shown(index: ToolIndex, corpus: Corpus, request: str) -> list[str]:
    return [corpus.ids[hit.number] for hit in index.search(request, limit=LIMIT_DEFAULT)]


def _relive(uses: PastUses, step: Step, shown: Sequence[str]) -> None:
    session = SessionId(step.request)
    uses.note_search(session, request=step.request, found=shown)
    for group in step.wanted:
        used = next((tool for tool in shown if tool in group), min(group))
        uses.note_success(_ONE, session, tool=used, now_ms=0)


def _lifted(index: ToolIndex, corpus: Corpus, uses: PastUses, request: str) -> list[str]:
    numbers = {tool: number for number, tool in enumerate(corpus.ids)}
    fitting = uses.fitting(_ONE, request, now_ms=0)
    usual = uses.usual(_ONE, now_ms=0)
    hits = index.search(
        request,
        limit=DEPTH,
        lifts={numbers[tool]: FITTING_WEIGHT * share for tool, share in fitting.items()},
        nudges={numbers[tool]: USUAL_WEIGHT * share for tool, share in usual.items()},
    )
    return [corpus.ids[hit.number] for hit in hits]


_PLAIN_WORD = re.compile(r"[a-z0-9]+|[\u4e00-\u9fff]")
_INNER_CAPITAL = re.compile("([a-z])([A-Z])")


def plain_bm25(corpus: Corpus) -> Search:
    """Return the baseline: BM25 (k1 = 1.2, b = 0.75) over all words of a tool in one field."""
    texts = [{"text": Counter(_plain_words(_whole(tool)))} for tool in corpus.texts]
    fields = WeightedFields(texts, {"text": FieldTerms(weight=1.0, evenness=0.75)})

    def search(request: str) -> Sequence[str]:
        scores = fields.scores(_plain_words(request))
        best = sorted(scores, key=lambda number: (-scores[number], number))[:DEPTH]
        return [corpus.ids[number] for number in best]

    return search


def _whole(tool: ToolText) -> str:
    properties = tool.schema.get("properties")
    names = properties if isinstance(properties, Mapping) else ()
    return " ".join([tool.server, tool.about, tool.name, tool.description, *map(str, names)])


def _plain_words(text: str) -> list[str]:
    return _PLAIN_WORD.findall(_INNER_CAPITAL.sub(r"\1 \2", text).replace("_", " ").lower())
