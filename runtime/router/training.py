"""What a router is trained from: its own log, recorded outcomes, or both; and what is held out."""

import base64
import binascii
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from governor.call import CallStatus
from governor.learning.offpolicy import LikelyValue, Logged, on_policy
from governor.learning.online import Word, capped_weights
from runtime.errors import RuntimeFaultError
from runtime.router.off_policy import WEIGHT_MIN
from runtime.router.outcome_lines import Line, read_lines
from runtime.router.predictor import OutcomeRow, RouterModel
from runtime.router.written import WrittenError, unpacked

# The newest part of the log is not learned: it decides whether a model is any better.
HELD_OUT_SHARE = 0.3
# An outcome of a tier that was taken seldom counts for those that were not tried, up to this.
_INVERSE_MAX = 10.0
_MICRO = 1_000_000
_LINES_MAX = 1_000_000
_HUNDRED = 100


class TrainingError(RuntimeFaultError):
    """There is too little to train a router from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRows:
    """What the log teaches, and until when; what came later is held out."""

    rows: tuple[OutcomeRow, ...]
    until_ms: int
    held_out: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """What recorded outcomes teach; the part that is held out goes by the prompts' words."""

    rows: tuple[OutcomeRow, ...]
    held_out: tuple[OutcomeRow, ...]


def log_rows(items: Sequence[Mapping[str, Any]], *, influence_per_day: float) -> LogRows:
    """Return what logged decisions teach, as the admin API tells of them.

    One agent's own words of a day teach no more than `influence_per_day` all together.
    """
    usable = sorted(
        (item for item in items if _is_usable(item)),
        key=lambda item: (item["decided_at_ms"], item["call_id"]),
    )
    learned = usable[: len(usable) - round(HELD_OUT_SHARE * len(usable))]
    until_ms = learned[-1]["decided_at_ms"] if learned else 0
    words = [
        Word(
            agent=item["agent"],
            decided_at_ms=item["decided_at_ms"],
            weight=item["weight"],
            is_trusted=item["is_trusted"],
        )
        for item in learned
    ]
    weights = capped_weights(words, per_day=influence_per_day)
    rows = (_log_row(item, weight) for item, weight in zip(learned, weights, strict=True))
    return LogRows(
        rows=tuple(row for row in rows if row is not None),
        until_ms=until_ms,
        held_out=len(usable) - len(learned),
    )


def _is_usable(item: Mapping[str, Any]) -> bool:
    """Tell whether a choice served its call and somebody said what that was worth."""
    is_rated = item["score"] is not None and item["weight"] >= WEIGHT_MIN
    return is_rated and item["status"] == CallStatus.OK


def _log_row(item: Mapping[str, Any], weight: float) -> OutcomeRow | None:
    tier = item["tier"]
    expected = {name: cost for name, _, cost, _ in item["options"]}
    cost = item["cost_microusd"]
    try:
        features = unpacked(base64.b64decode(item["features_base64"], validate=True))
    except (WrittenError, binascii.Error, ValueError):
        return None
    inverse = min(_INVERSE_MAX, 1.0 / item["propensity"])
    return OutcomeRow(
        text="",
        features=features,
        scores={tier: item["score"]},
        costs_microusd={tier: expected[tier] if cost is None else float(cost)},
        weights={tier: inverse * weight},
    )


def file_rows(path: Path) -> FileRows:
    """Return what the outcomes in a file teach.

    Raises:
        OutcomesFileError: it cannot be read; the line is named.
    """
    rows: list[OutcomeRow] = []
    held_out: list[OutcomeRow] = []
    for line in read_lines(path, lines_max=_LINES_MAX):
        (held_out if _is_held_out(line) else rows).append(
            OutcomeRow(
                text=line.prompt,
                scores=line.scores,
                costs_microusd={name: cost * _MICRO for name, cost in line.costs.items()},
            )
        )
    return FileRows(rows=tuple(rows), held_out=tuple(held_out))


def _is_held_out(line: Line) -> bool:
    """Tell by its words: what stands in the file twice, under whichever id, is on one side."""
    words = " ".join(line.prompt.split()).encode("utf-8", "surrogatepass")
    digest = int.from_bytes(sha256(words).digest()[:4], "big")
    return digest % _HUNDRED < _HUNDRED * HELD_OUT_SHARE


def gain_on_file(
    model: RouterModel, held_out: Sequence[OutcomeRow], *, price: float
) -> LikelyValue | None:
    """Return what a model earns more than the best fixed tier on outcomes that it has not learned.

    None where there are none of which every tier's is known. Its `n` is that of the prompts.
    """
    whole = [row for row in held_out if set(model.tiers) <= row.scores.keys()]
    if not whole:
        return None
    worth = np.array(
        [
            [row.scores[tier] - price * row.costs_microusd[tier] for tier in model.tiers]
            for row in whole
        ]
    )
    chosen = np.array([_choice(model, row, price=price) for row in whole])
    best = int(worth.mean(axis=0).argmax())
    gains = worth[np.arange(len(whole)), chosen] - worth[:, best]
    ones = np.ones(len(whole))
    _, prompts = np.unique([row.text for row in whole], return_inverse=True)
    found = on_policy(
        Logged(
            rewards=gains,
            propensities=ones,
            targets=ones,
            modelled=gains,
            modelled_policy=gains,
            groups=prompts,
        )
    )
    return replace(found, n=int(prompts.max()) + 1)


def _choice(model: RouterModel, row: OutcomeRow, *, price: float) -> int:
    tiers = model.predict(row.text).tiers
    return max(
        range(len(model.tiers)),
        key=lambda at: (
            tiers[model.tiers[at]].quality - price * tiers[model.tiers[at]].cost_microusd
        ),
    )
