"""Reading recorded sessions: what each call took, as far as the records tell.

The records have one sample of a container's memory a second, so what a call held is inferred:
the highest sample while it ran, or within a second of that, above the last one before it. Tools
that start no process cannot have held what others left: theirs is what is usual for their kind.
Durations are those of the runs whose calls were timed alone; the calls of the others contain a
model's answer, so theirs are drawn from calls of the same kind.
"""

import json
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from runtime.errors import RuntimeFaultError

FILE = "replay_144.jsonl"
CALL_MS_MAX = 5_000
GAP_MS_MAX = 300
_TIMED_MODEL = "haiku"
_GAP_DIVISOR = 10
_SAMPLE_S = 1.05
_STARTUP_SAMPLES = 2
_MB = 1_000_000
_MS_PER_S = 1_000
_CORE_PERCENT = 100.0
_CPU_SHARE_USUAL = 0.3
_ELSEWHERE = "other"
_STARTS_PROCESSES = ("Bash", "Task")


class TracesError(RuntimeFaultError):
    """The recorded sessions cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One recorded call: how long it took, and of that on a processor, what it held at its peak.

    `gap_ms` is the compressed time since the call before it.
    """

    kind: str
    duration_ms: int
    cpu_ms: int
    memory_bytes: int
    gap_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One recorded session: what it held between its calls, and these."""

    task: str
    model: str
    base_bytes: int
    calls: tuple[Call, ...]

    @property
    def peak_bytes(self) -> int:
        """Return the most that one of its calls held."""
        return max(call.memory_bytes for call in self.calls)

    @property
    def nominal_ms(self) -> int:
        """Return how long it takes with nothing in its way."""
        return sum(call.duration_ms + call.gap_ms for call in self.calls)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Raw:
    """One line of the file, with what can be inferred of each call."""

    task: str
    model: str
    base_bytes: int
    kinds: Sequence[str]
    durations_ms: Sequence[int]
    gaps_ms: Sequence[int]
    rises: Sequence[int | None]
    shares: Sequence[float | None]


def read_traces(folder: Path) -> tuple[Trace, ...]:
    """Return every recorded session in a folder.

    Raises:
        TracesError: the file is not there, or a line of it is not usable.
    """
    path = folder / FILE
    raws: list[_Raw] = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    raws.append(_raw(json.loads(line)))
                except (ValueError, KeyError, TypeError, IndexError) as error:
                    message = f"{path}:{number}: not a recorded session"
                    raise TracesError(message) from error
    except OSError as error:
        message = f"{path}: cannot be read; --data names the folder that holds {FILE}"
        raise TracesError(message) from error
    usable = [raw for raw in raws if raw.kinds]
    if not usable:
        raise TracesError(f"{path}: no session with calls")
    return _completed(usable)


def _raw(line: dict[str, Any]) -> _Raw:
    samples = [(float(at), float(mb), float(inst)) for at, mb, _, inst in line["samples"]]
    calls = sorted(line["calls"], key=lambda call: float(call[0]))
    base = _base_mb(samples)
    ends = [0.0, *(float(call[1]) for call in calls)]
    during = [_during(samples, float(call[0]), float(call[1])) for call in calls]
    return _Raw(
        task=str(line["task"]),
        model=str(line["model"]),
        base_bytes=round(base * _MB),
        kinds=[_kind(call[2], call[3]) for call in calls],
        durations_ms=[_ms(float(call[1]) - float(call[0]), CALL_MS_MAX) for call in calls],
        gaps_ms=[
            _ms((float(call[0]) - before) / _GAP_DIVISOR, GAP_MS_MAX)
            for call, before in zip(calls, ends, strict=False)
        ],
        rises=[
            _rise(samples, seen, float(call[0]), base)
            for call, seen in zip(calls, during, strict=True)
        ],
        shares=[_share(seen) for seen in during],
    )


def _base_mb(samples: Sequence[tuple[float, float, float]]) -> float:
    """Return what the session holds between its bursts: the lower quartile, start left out."""
    ordered = sorted(mb for _, mb, _ in samples[_STARTUP_SAMPLES:] or samples)
    return ordered[len(ordered) // 4]


def _during(
    samples: Sequence[tuple[float, float, float]], begun: float, ended: float
) -> list[tuple[float, float]]:
    return [(mb, cpu) for at, mb, cpu in samples if begun < at <= ended + _SAMPLE_S]


def _rise(
    samples: Sequence[tuple[float, float, float]],
    seen: Sequence[tuple[float, float]],
    begun: float,
    base: float,
) -> int | None:
    if not seen:
        return None
    before = [mb for at, mb, _ in samples if at <= begun]
    rise = max(mb for mb, _ in seen) - max(base, before[-1] if before else base)
    return max(0, round(rise * _MB))


def _share(seen: Sequence[tuple[float, float]]) -> float | None:
    if not seen:
        return None
    percent = sum(cpu for _, cpu in seen) / len(seen)
    return min(1.0, max(0.0, percent / _CORE_PERCENT))


def _kind(tool: str, category: str | None) -> str:
    return tool if category is None else f"{tool}:{category}"


def _ms(seconds: float, highest: int) -> int:
    return max(1, min(highest, round(max(0.0, seconds) * _MS_PER_S)))


def _completed(raws: Sequence[_Raw]) -> tuple[Trace, ...]:
    """Fill in what single records do not tell from calls of the same kind."""
    timed: dict[str, list[int]] = defaultdict(list)
    rises: dict[str, list[int]] = defaultdict(list)
    shares: dict[str, list[float]] = defaultdict(list)
    for raw in raws:
        for kind, took, rise, share in zip(
            raw.kinds, raw.durations_ms, raw.rises, raw.shares, strict=True
        ):
            if raw.model == _TIMED_MODEL:
                timed[kind].append(took)
                timed[_ELSEWHERE].append(took)
            if rise is not None:
                rises[kind].append(rise)
            if share is not None:
                shares[kind].append(share)
    usual_rise = {kind: round(median(found)) for kind, found in rises.items()}
    usual_share = {kind: median(found) for kind, found in shares.items()}
    return tuple(_trace(raw, timed, usual_rise, usual_share) for raw in raws)


def _trace(
    raw: _Raw,
    timed: Mapping[str, Sequence[int]],
    usual_rise: Mapping[str, int],
    usual_share: Mapping[str, float],
) -> Trace:
    chance = random.Random(f"{raw.task} {raw.model}")  # noqa: S311 - a draw is no secret
    calls: list[Call] = []
    for number, kind in enumerate(raw.kinds):
        took = raw.durations_ms[number]
        if raw.model != _TIMED_MODEL and timed:
            took = chance.choice(timed.get(kind) or timed[_ELSEWHERE])
        rise, share = raw.rises[number], raw.shares[number]
        if rise is None or not kind.startswith(_STARTS_PROCESSES):
            rise = usual_rise.get(kind, 0)
        if share is None:
            share = usual_share.get(kind, _CPU_SHARE_USUAL)
        calls.append(
            Call(
                kind=kind,
                duration_ms=took,
                cpu_ms=round(took * share),
                memory_bytes=rise,
                gap_ms=raw.gaps_ms[number],
            )
        )
    return Trace(task=raw.task, model=raw.model, base_bytes=raw.base_bytes, calls=tuple(calls))
