"""What a bank that agents share saves them: a made workload, and recorded runs replayed.

    python -m benchmarks.memory_sharing [--seeds 10] [--tau FILE] [--json]

Three ways are held against one another on the same workloads: nothing is shared, everything is,
and the learned controller decides. The intervals are over seeds (Student, 95 %), and paired where
two ways are compared. FILE holds trajectories of tau-bench; it is only replayed, nothing is kept.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from math import sqrt
from pathlib import Path

from benchmarks.sharing_replay import replayed, runs_of
from benchmarks.sharing_workload import Bank, Everything, Learned, Nothing, Tally, Workload
from governor.learning.offpolicy import t_95

WAYS: dict[str, Callable[[], Bank]] = {
    "nothing": Nothing,
    "everything": Everything,
    "learned": Learned,
}
Figure = dict[str, float]


def figure(values: Sequence[float]) -> Figure:
    """Return a mean and the interval around it."""
    mean = statistics.fmean(values)
    half = 0.0
    if len(values) > 1:
        half = t_95(len(values) - 1) * statistics.stdev(values) / sqrt(len(values))
    return {"mean": round(mean, 4), "low": round(mean - half, 4), "high": round(mean + half, 4)}


def shares(tally: Tally, alone: Tally) -> dict[str, float]:
    """Return what is reported of a way, `alone` being the same workload with nothing shared."""
    return {
        "duplicated_work_saved": 1.0 - tally.redone / alone.redone,
        "cost_saved": 1.0 - tally.cost_microusd / alone.cost_microusd,
        "tokens_read_per_task": tally.tokens_read / tally.tasks,
        "precision_of_what_entered": tally.of_use / tally.entered if tally.entered else 0.0,
        "entered_share": tally.entered / tally.offered,
        "solved": tally.solved / tally.tasks,
        "misled": tally.misled / tally.tasks,
    }


def synthetic(seeds: int) -> dict[str, dict[str, Figure]]:
    """Return the figures of each way over workloads of so many seeds."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in WAYS}
    for seed in range(seeds):
        tallies = {name: Workload(seed * 100, make()).run() for name, make in WAYS.items()}
        for name, tally in tallies.items():
            found[name].append(shares(tally, tallies["nothing"]))
    result = {
        name: {what: figure([row[what] for row in rows]) for what in rows[0]}
        for name, rows in found.items()
    }
    pairs = list(zip(found["learned"], found["everything"], strict=True))
    result["learned_less_everything"] = {
        what: figure([one[what] - other[what] for one, other in pairs]) for what in pairs[0][0]
    }
    return result


def replay(path: Path) -> dict[str, dict[str, float]]:
    """Return the figures of each way on recorded runs."""
    runs = runs_of(path)
    found = {}
    for name, make in WAYS.items():
        total = replayed(runs, make())
        found[name] = {
            **asdict(total),
            "repeated_calls_saved": round(total.saved / max(1, total.repeated), 4),
            "reads_saved": round(total.saved / max(1, total.reads), 4),
            "precision_of_what_entered": round(total.of_use / max(1, total.entered), 4),
        }
    return found


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--tau", type=Path)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    result: dict[str, dict[str, dict[str, object]]] = {"synthetic": dict(synthetic(asked.seeds))}
    if asked.tau is not None:
        result["replay"] = dict(replay(asked.tau))
    if asked.json:
        print(json.dumps(result))
        return
    for part, ways in result.items():
        for way, figures in ways.items():
            print(f"\n{part}, {way}")
            for what, value in figures.items():
                print(f"  {what:30} {_shown(value)}")


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return f"{value['mean']:9.3f}  [{value['low']:.3f}, {value['high']:.3f}]"
    return f"{value}"


if __name__ == "__main__":
    main()
