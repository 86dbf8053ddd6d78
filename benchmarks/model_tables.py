"""The tables of the comparison of model gateways: figures, ratios of one round, and goals."""

import statistics
from collections.abc import Callable, Mapping

from measure import spread
from model_running import JSON, PACE_MS, PACED, Row, Running


def show(running: list[Running], kind: str, callers: int) -> None:
    """Print each party's figures, and how its rate and CPU stand to Flyball's."""
    ours = next((one for one in running if one.party.is_ours), None)
    pace = f", {PACE_MS} ms between words" if kind == PACED else ""
    print(f"\n{kind} answers, {callers} at once{pace}\n")
    print(
        "| gateway | p50 ms | p99 ms | first token ms | answers/s | CPU ms/answer | "
        "Flyball's rate to it | its CPU to Flyball's |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for one in running:
        rows = one.rows.get((kind, callers), {}).values()
        if not rows:
            print(f"| {one.party.name} | no answer: {one.error[:80]} |")
            continue
        shown = [spread([row[key] for row in rows], digits=2) for key in ("p50", "p99", "first")]
        shown.append(spread([row["rate"] for row in rows], digits=0))
        shown.append(spread([row["cpu"] for row in rows], digits=2))
        shown.append(_shown(ours, one, kind, callers, lambda mine, its: mine["rate"] / its["rate"]))
        shown.append(_shown(ours, one, kind, callers, lambda mine, its: its["cpu"] / mine["cpu"]))
        print(f"| {one.party.name} | {' | '.join(shown)} |", flush=True)


def _paired(
    first: Running | None,
    second: Running | None,
    kind: str,
    callers: int,
    figure: Callable[[Row, Row], float],
) -> float | None:
    """Return the median over rounds of a figure of two parties in the same round."""
    if first is None or second is None:
        return None
    cell = (kind, callers)
    theirs = second.rows.get(cell, {})
    found = [
        figure(row, theirs[at]) for at, row in first.rows.get(cell, {}).items() if at in theirs
    ]
    return statistics.median(found) if found else None


def _shown(
    first: Running | None,
    second: Running,
    kind: str,
    callers: int,
    figure: Callable[[Row, Row], float],
) -> str:
    found = _paired(first, second, kind, callers, figure)
    return "-" if found is None else f"{found:.2f}"


def summarise(running: list[Running]) -> None:
    """Print what each adds to the direct way, and the goals beside what was measured."""
    direct = running[0]
    print("\n| gateway | p50 added, c = 1, ms | first token later, paced, ms | RSS MiB | faults |")
    print("|---|---|---|---|---|")
    for one in running[1:]:
        whole = _shown(one, direct, JSON, 1, lambda its, bare: its["p50"] - bare["p50"])
        first = _shown(one, direct, PACED, 1, lambda its, bare: its["first"] - bare["first"])
        wrong = f"{one.errors} of {one.errors + one.answered}" if one.errors else "0"
        print(f"| {one.party.name} | {whole} | {first} | {one.rss_mib:.0f} | {wrong} |")
    for one in running:
        if one.errors:
            print(f"\n{one.party.name} answered wrongly, first: {one.error[:300]}")
    _goals({one.party.name: one for one in running})
    loads = [row["load"] for one in running for rows in one.rows.values() for row in rows.values()]
    print(f"\nload {min(loads):.1f} to {max(loads):.1f}")


def _goals(by_name: Mapping[str, Running]) -> None:
    ours, direct = by_name.get("Flyball"), by_name["direct"]
    if ours is None:
        return
    goals: list[tuple[str, str, float | None]] = [
        ("CPU per answer, c = 16, ms", "≤ 0.5", _paired(ours, ours, JSON, 16, _cpu)),
        ("p50 added, c = 1, ms", "≤ 1", _paired(ours, direct, JSON, 1, _later("p50"))),
        ("first token later, ms", "≤ 1", _paired(ours, direct, PACED, 1, _later("first"))),
    ]
    for name, goal in (("LiteLLM", "≥ 10"), ("Portkey", "≥ 1.5")):
        times = _paired(ours, by_name.get(name), JSON, 16, _times)
        goals.append((f"rate to {name}'s, c = 16", goal, times))
    print("\n| goal | asked | measured |\n|---|---|---|")
    for what, asked, found in goals:
        print(f"| {what} | {asked} | {'-' if found is None else f'{found:.2f}'} |")


def _cpu(mine: Row, _: Row) -> float:
    return mine["cpu"]


def _times(mine: Row, its: Row) -> float:
    return mine["rate"] / its["rate"]


def _later(key: str) -> Callable[[Row, Row], float]:
    return lambda mine, its: mine[key] - its[key]
