"""What it costs to foretell one prompt: reading it, comparing it, and both.

    python -m benchmarks.forecasts LEARNED.jsonl ASKED.jsonl

The files hold recorded outcomes as `flyball eval router` reads them. A router is fitted to the
first; the prompts of the second are asked one after the other, in one thread. Times are of the
processor, not of the clock, in milliseconds; `short` asks a prompt of one line.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from runtime.evaluate.router.rows_file import Recorded, read_outcomes
from runtime.router.features import PromptReader
from runtime.router.predictor import OutcomeRow, RouterModel, fit
from runtime.word_vectors import vectors_if_any

_ASKED_MAX = 1_000
_MICRO = 1_000_000
_SHORT = "What is the capital of Portugal?"
Asked = TypeVar("Asked")


def measured(model: RouterModel, prompts: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the milliseconds that each part takes."""
    reader = PromptReader(vectors_if_any())
    return {
        "read": _timed(reader.read, prompts),
        "forecast": _timed(model.forecast, [reader.read(prompt) for prompt in prompts]),
        "both": _timed(model.predict, prompts),
        "short": _timed(model.predict, [_SHORT] * len(prompts)),
    }


def _timed(ask: Callable[[Asked], object], asked: Sequence[Asked]) -> dict[str, float]:
    for one in asked[:50]:
        ask(one)
    taken = []
    for one in asked:
        begun = time.thread_time_ns()
        ask(one)
        taken.append(time.thread_time_ns() - begun)
    found = np.array(taken) / _MICRO
    return {"mean": round(float(found.mean()), 4), "p50": round(float(np.median(found)), 4)}


def _rows(recorded: Recorded) -> list[OutcomeRow]:
    scores, costs = recorded.scores(), recorded.costs() * _MICRO
    return [
        OutcomeRow(
            text=line.prompt,
            scores=dict(zip(recorded.tiers, scores[at].tolist(), strict=True)),
            costs_microusd=dict(zip(recorded.tiers, costs[at].tolist(), strict=True)),
        )
        for at, line in enumerate(recorded.lines)
    ]


def main() -> int:
    """Print the times as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("learned", type=Path)
    parser.add_argument("asked", type=Path)
    arguments = parser.parse_args()
    recorded = read_outcomes(arguments.learned)
    model = fit(_rows(recorded), tiers=recorded.tiers, vectors=vectors_if_any())
    prompts = [line.prompt for line in read_outcomes(arguments.asked).lines[:_ASKED_MAX]]
    sys.stdout.write(json.dumps(measured(model, prompts), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
