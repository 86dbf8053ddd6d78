"""Cases chosen by what reading them was worth, against likeness alone.

    python -m benchmarks.memory_cases [--tau FILE.json] [--seeds 10] [--json]

`synthetic`: tasks of six classes in a world that changes half-way. Some cases that look alike do
harm, likeness says little of worth, outcomes come late and a third of them never. What is compared
is how often tasks succeed. `tau`: recorded runs, replayed in their order; the cases of a run are
the runs before it, and reading one is worth the share of the task's true actions that it shows
(F1 of the names of tools that change something), told only of the cases that were read. Nothing is
fitted beforehand. Intervals are of the difference, by seeds or by tasks, of 2,000 bootstraps.
"""

import argparse
import json
import math
import sys
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.measure import machine
from governor.experience.cases import (
    CANDIDATES_MAX,
    READERS_MAX,
    Candidate,
    CaseValues,
    PastReader,
    ReadCase,
    chosen_from,
    columns_of,
    credit_of,
    expected_outcome,
    read_case,
)
from governor.ids import ExperienceId
from governor.learning.averages import Average
from governor.retrieval.terms import words_of

_HOUR_MS = 3_600_000
_READ = 3
_DRAWS = 64
_FOUND = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """A case of a bank: `worth` is what reading it really adds, in its own class of task."""

    case: ExperienceId
    task_class: str
    outcome: float
    learned_at_ms: int
    worth: float = 0.0


Policy = Callable[[str, Sequence[tuple[Past, float]], int], list[Past]]


def by_likeness(_task_class: str, found: Sequence[tuple[Past, float]], _now_ms: int) -> list[Past]:
    """Return the cases that are most alike."""
    return [past for past, _ in sorted(found, key=lambda one: -one[1])[:_READ]]


def by_likeness_of_successes(
    task_class: str, found: Sequence[tuple[Past, float]], now_ms: int
) -> list[Past]:
    """Return the cases that are most alike among those that went well."""
    well = [one for one in found if one[0].outcome >= 0.5]  # noqa: PLR2004 - half
    return by_likeness(task_class, well or found, now_ms)


class ByValue:
    """Chooses and learns as the house does, without its database.

    `alike` says how alike two tasks are, by their numbers.
    """

    def __init__(self, seed: int, alike: Callable[[int, int], float] | None = None) -> None:
        """Begin with nothing learned."""
        self.values = CaseValues()
        self.forecasts: list[tuple[float, float]] = []
        self._alike = alike or (lambda _, __: 1.0)
        self._chance = np.random.default_rng(seed)
        self._readers: dict[str, deque[_Reader]] = defaultdict(lambda: deque(maxlen=READERS_MAX))
        self._bases: dict[str, Average] = defaultdict(Average)
        self._read: list[tuple[Past, ReadCase]] = []
        self._expected = 0.0
        self.task = 0

    def __call__(
        self, task_class: str, found: Sequence[tuple[Past, float]], now_ms: int
    ) -> list[Past]:
        """Return the cases that are read."""
        found = sorted(found, key=lambda one: -one[1])[:CANDIDATES_MAX]
        top = found[0][1] or 1.0
        valued = self.values.valued(
            [self._candidate(past, like, like / top, task_class, now_ms) for past, like in found]
        )
        normals = self._chance.standard_normal((_DRAWS, columns_of(len(valued))))
        drawn = self.values.drawn(valued, normals)
        dice = self._chance.random(_READ).tolist()
        choice = chosen_from(valued, drawn, most=_READ, dice=dice, terms=self.values.terms)
        base, pasts = self._base(task_class), {past.case: past for past, _ in found}
        self._expected = expected_outcome(base, choice.chosen)
        self._read = [
            (
                pasts[one.valued.candidate.case],
                read_case(one, base=base, of=len(choice.chosen), now_ms=now_ms),
            )
            for one in choice.chosen
        ]
        return [past for past, _ in self._read]

    def lesson(self, task_class: str) -> Callable[[float], None]:
        """Return what the outcome of the task is told to, once it is known."""
        read, expected, task = list(self._read), self._expected, self.task

        def learn(outcome: float) -> None:
            self.forecasts.append((expected, outcome))
            for past, one in read:
                self._learn(past, one, outcome, task_class=task_class, task=task)
            self._bases[task_class] = self._bases[task_class].noted(outcome)

        return learn

    def learn_each(self, task_class: str, worths: Mapping[str, float]) -> None:
        """Learn what each case that was read was worth by itself."""
        for past, one in self._read:
            alone, worth = replace(one, share=1.0), worths[past.case]
            self._learn(past, alone, worth, task_class=task_class, task=self.task)
            self._bases[task_class] = self._bases[task_class].noted(worth)

    def _learn(
        self, past: Past, read: ReadCase, outcome: float, *, task_class: str, task: int
    ) -> None:
        self.values.learn(read, outcome)
        reader = _Reader(read=read, outcome=outcome, task_class=task_class, task=task)
        self._readers[past.case].append(reader)

    def _base(self, task_class: str) -> float:
        seen = self._bases[task_class]
        return (0.5 * 4.0 + seen.mean * seen.weight) / (4.0 + seen.weight)

    def _candidate(
        self, past: Past, like: float, relative: float, task_class: str, now_ms: int
    ) -> Candidate:
        readers = [
            PastReader(
                excess=one.read.excess(one.outcome),
                weight=one.read.share,
                read_at_ms=one.read.read_at_ms,
                is_same_class=one.task_class == task_class,
                likeness=self._alike(one.task, self.task),
            )
            for one in self._readers[past.case]
        ]
        return Candidate(
            case=past.case,
            likeness=like,
            relative=relative,
            outcome=past.outcome,
            age_ms=now_ms - past.learned_at_ms,
            is_same_class=past.task_class == task_class,
            credit=credit_of(readers, now_ms=now_ms),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    read: ReadCase
    outcome: float
    task_class: str
    task: int


class World:
    """Tasks and cases that were never real: who reads what succeeds how often is known."""

    def __init__(self, seed: int) -> None:
        """Make the cases of a bank, and what each is worth."""
        self.chance = np.random.default_rng(seed)
        self.classes = [f"class-{n}" for n in range(6)]
        self.bases = dict(zip(self.classes, self.chance.uniform(0.25, 0.55, 6), strict=True))
        self.bank = [self._case(n) for n in range(180)]

    def _case(self, number: int) -> Past:
        won = bool(self.chance.random() < 0.6)  # noqa: PLR2004 - most cases of a bank went well
        mean = 0.15 if won else 0.03
        misleads = self.chance.random() < 0.15  # noqa: PLR2004 - as many cases as do harm
        worth = -0.25 if misleads else mean + 0.15 * self.chance.standard_normal()
        return Past(
            case=ExperienceId(f"exp_{number}"),
            task_class=self.classes[number % len(self.classes)],
            outcome=float(won),
            learned_at_ms=0,
            worth=float(worth),
        )

    def changed(self) -> None:
        """Let four in ten cases be worth something else from now on."""
        for place in self.chance.permutation(len(self.bank))[: len(self.bank) * 2 // 5]:
            worth = float(0.08 + 0.2 * self.chance.standard_normal())
            self.bank[place] = replace(self.bank[place], worth=worth)

    def found(self, task_class: str) -> list[tuple[Past, float]]:
        """Return what a search finds: mostly of the class, and likeness that is mostly chance."""
        noise = self.chance.normal(0.45, 0.15, len(self.bank))
        likes = [
            (past, float(np.clip(noise[n] + 0.25 * (past.task_class == task_class), 0.0, 1.0)))
            for n, past in enumerate(self.bank)
        ]
        return sorted(likes, key=lambda one: -one[1])[:_FOUND]

    def chance_with(self, task_class: str, read: Sequence[Past]) -> float:
        """Return the chance that a reader of these cases succeeds."""
        worths = [one.worth * (1.0 if one.task_class == task_class else 0.3) for one in read]
        return float(np.clip(self.bases[task_class] + sum(worths), 0.02, 0.98))


def run_synthetic(policy: str, seed: int, tasks: int) -> tuple[float, ByValue | None]:
    """Return the mean chance of success over all tasks of a world."""
    world, learner = World(seed), ByValue(seed + 1_000)
    policies: dict[str, Policy] = {
        "likeness": by_likeness,
        "likeness of successes": by_likeness_of_successes,
        "value": learner,
    }
    draws = np.random.default_rng(seed + 2_000)
    waiting: deque[tuple[int, Callable[[float], None], float]] = deque()
    total = 0.0
    for task in range(tasks):
        if task == tasks // 2:
            world.changed()
        task_class = world.classes[int(draws.integers(len(world.classes)))]
        read = policies[policy](task_class, world.found(task_class), task * _HOUR_MS)
        chance = world.chance_with(task_class, read)
        total += chance
        outcome, is_told = float(draws.random() < chance), draws.random() < 2 / 3
        if policy == "value" and is_told:
            waiting.append((task + 20, learner.lesson(task_class), outcome))
        while waiting and waiting[0][0] <= task:
            _, learn, late = waiting.popleft()
            learn(late)
    return total / tasks, learner if policy == "value" else None


def synthetic(seeds: int, tasks: int) -> dict[str, object]:
    """Return how often tasks succeed under each policy, and by how much value is ahead."""
    names = ("likeness", "likeness of successes", "value")
    runs = {name: [run_synthetic(name, seed, tasks) for seed in range(seeds)] for name in names}
    means = {name: np.array([one[0] for one in found]) for name, found in runs.items()}
    forecasts = [pair for _, learner in runs["value"] if learner for pair in learner.forecasts]
    return {
        "tasks": tasks,
        "seeds": seeds,
        "success": {name: round(float(found.mean()), 4) for name, found in means.items()},
        "value_minus_likeness": _interval(means["value"] - means["likeness"]),
        "value_minus_successes": _interval(means["value"] - means["likeness of successes"]),
        "calibration_error": round(_calibration_error(forecasts), 4),
    }


def tau(path: Path, orders: int) -> dict[str, object]:
    """Return what cases are worth to the recorded runs, by policy."""
    runs = json.loads(path.read_text())
    texts = [_first_words(run) for run in runs]
    likes = _likenesses(texts)
    worths = np.array([[_shows(case, run) for case in runs] for run in runs])
    by_task: dict[str, dict[int, list[float]]] = {}
    for order in range(orders):
        draws = np.random.default_rng(order)
        sequence = sorted(range(len(runs)), key=lambda at: (runs[at]["trial"], draws.random()))
        for name in ("likeness", "likeness of successes", "value"):
            kept = by_task.setdefault(name, defaultdict(list))
            for at, worth in _replayed(name, runs, sequence, likes, worths, seed=order):
                kept[runs[at]["task_id"]].append(worth)
    tasks = sorted(by_task["value"])
    means = {
        name: np.array([np.mean(found[task]) for task in tasks]) for name, found in by_task.items()
    }
    return {
        "runs": len(runs),
        "orders": orders,
        "worth": {name: round(float(found.mean()), 4) for name, found in means.items()},
        "value_minus_likeness": _interval(means["value"] - means["likeness"]),
        "value_minus_successes": _interval(means["value"] - means["likeness of successes"]),
    }


def _replayed(
    policy: str,
    runs: Sequence[dict[str, object]],
    sequence: Sequence[int],
    likes: np.ndarray,
    worths: np.ndarray,
    *,
    seed: int,
) -> list[tuple[int, float]]:
    learner = ByValue(seed, alike=lambda one, other: float(likes[one, other]))
    policies: dict[str, Policy] = {
        "likeness": by_likeness,
        "likeness of successes": by_likeness_of_successes,
        "value": learner,
    }
    bank: list[tuple[int, Past]] = []
    found: list[tuple[int, float]] = []
    for hour, at in enumerate(sequence):
        candidates = [(past, float(likes[at, place])) for place, past in bank]
        candidates = sorted(candidates, key=lambda one: -one[1])[:_FOUND]
        places = {past.case: place for place, past in bank}
        learner.task = at
        if len(bank) >= _FOUND:
            read = policies[policy]("airline", candidates, hour * _HOUR_MS)
            shown = {past.case: float(worths[at, places[past.case]]) for past in read}
            found.append((at, float(np.mean(list(shown.values())))))
            if policy == "value":
                learner.learn_each("airline", shown)
        past = Past(
            case=ExperienceId(f"exp_{at}"),
            task_class="airline",
            outcome=float(str(runs[at]["reward"])),
            learned_at_ms=hour * _HOUR_MS,
        )
        bank.append((at, past))
    return found


def _first_words(run: dict[str, object]) -> str:
    messages = run["traj"]
    assert isinstance(messages, list), "a run is a list of messages"
    said = [str(one["content"]) for one in messages if one["role"] == "user"]
    return " ".join(said[:3])


def _shows(case: dict[str, object], run: dict[str, object]) -> float:
    """Return the F1 of the actions that a case took against those that a run's task wants."""
    took, wanted = _actions_taken(case), _actions_wanted(run)
    if not took and not wanted:
        return 1.0
    both = sum((took & wanted).values())
    return 2.0 * both / (sum(took.values()) + sum(wanted.values()))


_CHANGING = ("book_", "update_", "cancel_", "send_")


def _actions_taken(run: dict[str, object]) -> Counter[str]:
    messages = run["traj"]
    assert isinstance(messages, list), "a run is a list of messages"
    calls = [call for one in messages for call in one.get("tool_calls") or ()]
    return _changing(str(call["function"]["name"]) for call in calls)


def _actions_wanted(run: dict[str, object]) -> Counter[str]:
    about = run["info"]
    assert isinstance(about, dict), "a run says what its task is"
    return _changing(str(one["name"]) for one in about["task"]["actions"])


def _changing(names: Iterable[str]) -> Counter[str]:
    return Counter(name for name in names if name.startswith(_CHANGING))


def _likenesses(texts: Sequence[str]) -> np.ndarray:
    """Return how alike texts are: cosines of their words, rare ones counting more."""
    words = [Counter(words_of(text)) for text in texts]
    holders = Counter(word for one in words for word in one)
    places = {word: n for n, word in enumerate(holders)}
    rows = np.zeros((len(texts), len(places)))
    for row, one in enumerate(words):
        for word, count in one.items():
            rarity = math.log(1 + len(texts) / holders[word])
            rows[row, places[word]] = (1 + math.log(count)) * rarity
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)
    return rows @ rows.T


def _interval(differences: np.ndarray) -> dict[str, float]:
    draws = np.random.default_rng(7)
    picks = draws.integers(0, len(differences), (2_000, len(differences)))
    low, high = np.percentile(differences[picks].mean(axis=1), [2.5, 97.5])
    return {
        "mean": round(float(differences.mean()), 4),
        "low": round(float(low), 4),
        "high": round(float(high), 4),
    }


def _calibration_error(pairs: Sequence[tuple[float, float]]) -> float:
    """Return how far forecasts of success are off, on average over tenths of them."""
    ordered = sorted(pairs)
    tenths = np.array_split(np.array(ordered), 10)
    return float(np.mean([abs(one[:, 0].mean() - one[:, 1].mean()) for one in tenths]))


def main() -> int:
    """Print the tables, or one object with `--json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--tau", type=Path, help="recorded runs, as tau-bench keeps them")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=2_000)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found: dict[str, object] = {"synthetic": synthetic(asked.seeds, asked.tasks)}
    if asked.tau is not None:
        found["tau"] = tau(asked.tau, asked.seeds)
    if asked.json:
        print(json.dumps(found))
        return 0
    print(machine())
    print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
