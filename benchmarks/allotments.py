"""What allotments strand, deny and cost, in calm and in storm, up to ten thousand replicas.

    python benchmarks/allotments.py --replicas 10 --replicas 100 --replicas 1000 --replicas 10000

Each row is simulated from its seed, with an upstream that counts what was really spent: a window
that is overspent ends the run. In `plenty` half of the limit is asked for, in `short` twice as
much as there is. Nothing here depends on the machine but how long it takes.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from proof.allotments import CALM, STORM, Simulation, Story  # noqa: E402

CALLS_PER_S, WINDOW_S, COST_MAX = 0.5, 120.0, 20
# Half of what is held is spent in the mean.
SPENT_MEAN = COST_MAX / 4


def main() -> None:
    """Print the table, and as JSON on request."""
    options = _options()
    rows = []
    for replicas in options.replicas:
        for weather, trouble in (("calm", CALM), ("storm", STORM)):
            for supply, share in (("plenty", 2.0), ("short", 0.5)):
                asked = replicas * CALLS_PER_S * WINDOW_S * SPENT_MEAN
                story = Story(
                    replicas=replicas,
                    limit=int(asked * share),
                    window_s=WINDOW_S,
                    windows=1,
                    calls_per_s=CALLS_PER_S,
                    cost_max=COST_MAX,
                )
                found = Simulation(replace(story, trouble=trouble), options.seed).run()
                rows.append({"replicas": replicas, "weather": weather, "supply": supply, **found})
                _show(rows[-1], first=len(rows) == 1)
    if options.json:
        print(json.dumps(rows))


def _show(row: dict[str, object], *, first: bool) -> None:
    if first:
        print(
            "| replicas | weather | supply | calls | crashes | spent of the limit | denied with "
            "1 % left | transactions/call | overspent |\n|---|---|---|---|---|---|---|---|---|"
        )
    figures = {name: int(str(value)) for name, value in row.items() if str(value).isdigit()}
    calls = figures["calls"]
    early = figures.get("denied with a hundredth left", 0)
    print(
        f"| {row['replicas']} | {row['weather']} | {row['supply']} | {calls} "
        f"| {figures.get('crashed', 0)} | {figures['spent'] / figures['limit']:.1%} "
        f"| {early / calls:.2%} | {figures['transactions'] / calls:.2f} | 0 |",
        flush=True,
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, action="append")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.replicas = options.replicas or [10, 100, 1_000, 10_000]
    return options


if __name__ == "__main__":
    main()
