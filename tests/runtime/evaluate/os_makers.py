"""Recorded sessions that tests make up."""

import json
from pathlib import Path
from typing import Any

from runtime.evaluate.os.mixes import MIB, Mix, Part, Role
from runtime.evaluate.os.outcome import Arm, Outcome, SessionOutcome
from runtime.evaluate.os.traces import FILE, Call, Trace


def call(
    *, ms: int = 100, cpu_ms: int = 10, mib: int = 1, kind: str = "Bash:test", gap_ms: int = 1
) -> Call:
    return Call(kind=kind, duration_ms=ms, cpu_ms=cpu_ms, memory_bytes=mib * MIB, gap_ms=gap_ms)


def trace(task: str, *calls: Call, base_mib: int = 10) -> Trace:
    return Trace(task=task, model="haiku", base_bytes=base_mib * MIB, calls=calls or (call(),))


def mix(*traces: Trace, expected_mib: int = 1, number: int = 0) -> Mix:
    parts = tuple(
        Part(role=role, trace=one, expected=dict.fromkeys(kinds(one), expected_mib * MIB))
        for role, one in zip(Role, traces, strict=False)
    )
    return Mix(number=number, parts=parts)


def kinds(one: Trace) -> set[str]:
    return {call.kind for call in one.calls}


def session(
    role: Role = Role.HIGH,
    *,
    walls: tuple[float, ...] = (100.0,),
    took: float = 100.0,
    nominal: int = 100,
    killed: int = 0,
) -> SessionOutcome:
    return SessionOutcome(
        role=role,
        walls_ms=list(walls),
        steps_us=[],
        done_nominal_ms=nominal,
        session_ms=took,
        killed=killed,
        timed_out=0,
        is_complete=True,
    )


def outcome(
    arm: Arm, *sessions: SessionOutcome, mix: int = 0, makespan: float = 100.0, wasted: float = 0.0
) -> Outcome:
    return Outcome(
        mix=mix,
        arm=arm,
        memory_mib=100,
        sessions=list(sessions),
        makespan_ms=makespan,
        wasted_mib_s=wasted,
        overshoot_bytes=0,
        leaked=0,
    )


def line(
    task: str,
    calls: list[list[Any]],
    *,
    model: str = "haiku",
    samples: list[list[float]] | None = None,
) -> dict[str, Any]:
    usual = [[float(second), 200.0, 50.0, 50.0] for second in range(20)]
    return {"task": task, "model": model, "samples": samples or usual, "calls": calls}


def write_lines(folder: Path, *lines: dict[str, Any]) -> Path:
    path = folder / FILE
    path.write_text("".join(json.dumps(one) + "\n" for one in lines))
    return path
