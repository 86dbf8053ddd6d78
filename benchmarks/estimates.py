"""How well learned estimates fit recorded agent runs: coverage, what they hold, cold starts.

The runs are split by task, so that nothing of a task is known before it. From the training tasks
each kind of work is learned (tool, class of its command, repository); then the calls of the other
tasks are estimated, once with what was learned alone, once while learning goes on. A call whose
figure nobody recorded counts nowhere. Printed is also how often our classes of commands agree with
those that the recording has.
"""

import argparse
import json
import random
import statistics
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from governor.command_class import class_of
from governor.expectation import (
    NOTHING_KNOWN,
    ExpectationTerms,
    Known,
    Measure,
    Work,
    expected,
)
from governor.ids import TenantId, ToolName

# The limits of a rule that says nothing: what is held where nobody knows better.
LIMITS = {Measure.WALL_MS: 60_000, Measure.MEMORY_PEAK_KIB: 512 * 1024}
SPLITS = 20
_KIB_PER_MB = 1_000_000 / 1_024


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded command: what kind of work it is, and what it used as far as is known."""

    work: Work
    said: str
    used: dict[Measure, int]


@dataclass(slots=True)
class Score:
    """What estimates of one measure came to over the calls of the test tasks."""

    known: int = 0
    cold: int = 0
    covered: int = 0
    above_limit: int = 0
    held: int = 0
    limits: int = 0
    used: int = 0
    per_call: list[float] = field(default_factory=list)

    def note(self, estimate: int | None, used: int, limit: int) -> None:
        """Count one call."""
        if used > limit:
            self.above_limit += 1  # the limit ends it; no estimate within it could hold that
            return
        held = limit if estimate is None else min(estimate, limit)
        self.cold += estimate is None
        self.known += estimate is not None
        self.covered += estimate is not None and used <= held
        self.held += held
        self.limits += limit
        self.used += used
        self.per_call.append(held / max(1, used))

    def figures(self) -> dict[str, float]:
        """Return the shares."""
        calls = self.known + self.cold
        return {
            "coverage": self.covered / max(1, self.known),
            "cold_start": self.cold / max(1, calls),
            "held_of_limits": self.held / max(1, self.limits),
            "over_reservation": self.held / max(1, self.used),
            "over_reservation_of_limits": self.limits / max(1, self.used),
            "above_limit": self.above_limit / max(1, calls + self.above_limit),
        }


def runs_of(path: Path, model: str) -> OrderedDict[str, list[Call]]:
    """Return the commands of each task, in their order."""
    runs: OrderedDict[str, list[Call]] = OrderedDict()
    for line in path.read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        if model in (run["model"], "all"):
            key = f"{run['model']}/{run['task']}"
            runs[key] = [_call(run, one) for one in run["calls"] if one[2] == "Bash"]
    return runs


def _call(run: dict[str, Any], call: Sequence[Any]) -> Call:
    began, ended, tool, said, line = call[:5]
    used: dict[Measure, int] = {}
    # The other model's durations hold a check by a model before each command.
    if run["model"] == "haiku":
        used[Measure.WALL_MS] = round((ended - began) * 1_000)
    peak_mb = _peak_mb(run["samples"], began, ended)
    if peak_mb is not None:
        used[Measure.MEMORY_PEAK_KIB] = round(peak_mb * _KIB_PER_MB)
    work = Work(
        tenant=TenantId("recorded"),
        tool=ToolName(str(tool)),
        kind=class_of(str(line or "")),
        repository=run["task"].rpartition("-")[0],
    )
    return Call(work=work, said=str(said), used=used)


def _peak_mb(samples: Iterable[Sequence[float]], began: float, ended: float) -> float | None:
    """Return by how much memory rose during a call; None where no sample lies within it."""
    before, within = 0.0, []
    for at, used_mb, *_ in samples:
        if at < began:
            before = used_mb
        elif at <= ended:
            within.append(used_mb)
    return max(0.0, max(within) - before) if within else None


def scored(
    train: Iterable[Call], test: Iterable[Call], terms: ExpectationTerms, *, goes_on: bool
) -> dict[Measure, Score]:
    """Return how the calls of the test tasks were estimated."""
    known: dict[Work, Known] = {}
    for call in train:
        _learn(known, call)
    scores = {measure: Score() for measure in LIMITS}
    for call in test:
        found = expected(
            known.get(call.work, NOTHING_KNOWN), known.get(call.work.anywhere, NOTHING_KNOWN), terms
        )
        for measure, used in call.used.items():
            scores[measure].note(found.used.get(measure), used, LIMITS[measure])
        if goes_on:
            _learn(known, call)
    return scores


def _learn(known: dict[Work, Known], call: Call) -> None:
    for work in {call.work, call.work.anywhere}:
        known[work] = known.get(work, NOTHING_KNOWN).with_call(call.used)


def splits(
    runs: OrderedDict[str, list[Call]], seed: int
) -> Iterator[tuple[list[Call], list[Call]]]:
    """Yield halves of the tasks, a new one each time."""
    names = list(runs)
    for number in range(SPLITS):
        chance = random.Random(f"{seed}/{number}")  # noqa: S311 - no secret
        shuffled = chance.sample(names, len(names))
        half = len(shuffled) // 2
        train, test = shuffled[:half], shuffled[half:]
        yield [c for n in train for c in runs[n]], [c for n in test for c in runs[n]]


def _report(name: str, all_figures: list[dict[str, float]]) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for key in all_figures[0]:
        values = sorted(one[key] for one in all_figures)
        found[key] = [round(v, 3) for v in (statistics.median(values), values[0], values[-1])]
    print(name)
    for key, (median, low, high) in found.items():
        print(f"    {key:28} {median:10.3f}   {low:.3f} .. {high:.3f}")
    return found


def agreement(runs: OrderedDict[str, list[Call]]) -> float:
    """Return how often our class of a command is the recording's, and print where it is not."""
    pairs = Counter((call.said, call.work.kind.value) for calls in runs.values() for call in calls)
    same = sum(count for (said, ours), count in pairs.items() if said == ours)
    total = sum(pairs.values())
    print(f"classes: {same} of {total} commands agree ({same / total:.1%})")
    for (said, ours), count in pairs.most_common():
        if said != ours and count * 200 >= total:
            print(f"    {said} there, {ours} here: {count}")
    return same / total


def main() -> None:
    """Print the table, and one JSON object on the last line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("replay", type=Path, help="the recorded runs, one JSON object a line")
    parser.add_argument("--model", default="all", help="only the runs of this model")
    parser.add_argument("--samples-min", type=int, default=ExpectationTerms().samples_min)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    runs = runs_of(arguments.replay, arguments.model)
    terms = ExpectationTerms(samples_min=arguments.samples_min)
    out: dict[str, Any] = {
        "seed": arguments.seed,
        "tasks": len(runs),
        "splits": SPLITS,
        "class_agreement": round(agreement(runs), 4),
    }
    for goes_on in (False, True):
        figures: dict[Measure, list[dict[str, float]]] = {measure: [] for measure in LIMITS}
        for train, test in splits(runs, arguments.seed):
            for measure, score in scored(train, test, terms, goes_on=goes_on).items():
                figures[measure].append(score.figures())
        for measure, found in figures.items():
            name = f"{measure.value}, {'learning goes on' if goes_on else 'learned before'}"
            out[name] = _report(name, found)
    print(json.dumps(out))


if __name__ == "__main__":
    main()
