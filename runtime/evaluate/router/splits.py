"""Which rows are learned from and which are judged on: the same prompt is never on both sides."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]
FOLDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The places of rows to learn from, and of those to judge on."""

    train: Places
    test: Places


def folds(prompts: Sequence[str], *, seed: int) -> list[Split]:
    """Return five splits that judge on every row once.

    The same prompt is on one side, unless there are too few different ones to be split by.
    """
    if len(set(prompts)) < FOLDS:
        prompts = [str(number) for number in range(len(prompts))]
    return _by_bin(_dealt(prompts, seed=seed))


def group_folds(groups: Sequence[str], *, seed: int) -> list[Split]:
    """Return splits that judge on groups nothing was learned of; none where there is one group."""
    if len(set(groups)) < 2:  # noqa: PLR2004 - one group cannot be left out
        return []
    return _by_bin(_dealt(groups, seed=seed))


def labelled(prompts: Sequence[str], labels: int, *, seed: int) -> Split:
    """Return a split that learns from about `labels` rows drawn by lot and judges on the rest."""
    places: dict[str, list[int]] = {}
    for place, prompt in enumerate(prompts):
        places.setdefault(prompt, []).append(place)
    distinct = list(places.values())
    train: list[int] = []
    for at in np.random.default_rng(seed).permutation(len(distinct)):
        if len(train) + len(distinct[at]) <= labels:
            train.extend(distinct[at])
    if len(train) < labels // 2:  # a few prompts make up most of the file
        train = list(np.random.default_rng(seed).permutation(len(prompts))[:labels])
    chosen = np.zeros(len(prompts), dtype=bool)
    chosen[train] = True
    return Split(train=np.flatnonzero(chosen), test=np.flatnonzero(~chosen))


def _dealt(keys: Sequence[str], *, seed: int) -> Places:
    """Return a bin for each row: all with one key together, the bins about equally full."""
    counts: dict[str, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    distinct = list(counts)
    lot = np.random.default_rng(seed).permutation(len(distinct))
    # The large first, so that the small ones even out what those left uneven.
    order = sorted(range(len(distinct)), key=lambda at: (-counts[distinct[at]], lot[at]))
    full = [0] * FOLDS
    bins: dict[str, int] = {}
    for at in order:
        emptiest = min(range(FOLDS), key=full.__getitem__)
        bins[distinct[at]] = emptiest
        full[emptiest] += counts[distinct[at]]
    return np.array([bins[key] for key in keys])


def _by_bin(bins: Places) -> list[Split]:
    return [
        Split(train=np.flatnonzero(bins != number), test=np.flatnonzero(bins == number))
        for number in range(FOLDS)
        if (bins == number).any() and (bins != number).any()
    ]
