"""Replaying one mix in one arm: each call a real process in a group of its own."""

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from anyio.abc import Process

from ebpf.isolation import Isolator
from ebpf.session_tree import CallGroup, Places, SessionTree
from governor.isolation import IsolationControl
from runtime.evaluate.os.mixes import MIB, Mix, Part
from runtime.evaluate.os.outcome import Arm, Outcome, SessionOutcome
from runtime.evaluate.os.traces import Call

CALL_SECONDS_MAX = 15.0
_READY_SECONDS_MAX = 60.0
_SAMPLE_SECONDS = 0.05
_STEPS_MAX = 40
_STEP_MS = 50
_INTERPRETER_BYTES = 8 * MIB
_BARE = (sys.executable, "-I", "-S", "-B")
_HOG = str(Path(__file__).with_name("hog.py"))
_NS_PER_MS = 1_000_000
_EVEN_WEIGHT = 100
# What else runs on the machine is not part of the question.
_ROOT_WEIGHT = 10_000

Timer = Callable[[], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """Where replays are made: the places for groups, what is shared, the clock."""

    places: Places
    memory_bytes: int
    elapsed_ns: Timer
    instance: str

    def elapsed_ms(self) -> int:
        """Return a monotonic reading in milliseconds."""
        return self.elapsed_ns() // _NS_PER_MS


@dataclass(slots=True, kw_only=True)
class _Arena:
    """One replay while it goes on."""

    ground: Ground
    arm: Arm
    tree: SessionTree
    isolator: Isolator | None
    set_aside_bytes: int
    mib_s: float = 0.0
    slowed: dict[str, tuple[int, str]] = field(default_factory=dict)


async def replay(mix: Mix, arm: Arm, ground: Ground) -> Outcome:
    """Return how a mix fared; nothing of it is left.

    Raises:
        DomainError: the kernel refused a group.
    """
    if arm is not Arm.ALONE:
        return await _together(mix, mix.parts, arm, ground)
    alone = [await _together(mix, (part,), arm, ground) for part in mix.parts]
    return Outcome(
        mix=mix.number,
        arm=arm,
        memory_mib=ground.memory_bytes // MIB,
        sessions=[one.sessions[0] for one in alone],
        makespan_ms=sum(one.makespan_ms for one in alone),
        wasted_mib_s=0.0,
        overshoot_bytes=max((one.overshoot_bytes or 0 for one in alone), default=None),
        leaked=sum(one.leaked for one in alone),
    )


async def _together(mix: Mix, parts: Sequence[Part], arm: Arm, ground: Ground) -> Outcome:
    tree = SessionTree(ground.places, name=f"flyball-{ground.instance}-{mix.number}-{arm.value}")
    sessions: list[SessionOutcome] = []
    leaked = 0
    try:
        arena = _arranged(tree, parts, arm, ground)
        makespan_ms = await _run(arena, parts, sessions)
        peak = tree.peak_bytes()
    finally:
        leaked = await tree.remove()
    counted = None if arena.isolator is None else arena.isolator.counted
    order = {part.role: number for number, part in enumerate(parts)}
    return Outcome(
        mix=mix.number,
        arm=arm,
        memory_mib=ground.memory_bytes // MIB,
        sessions=sorted(sessions, key=lambda one: order[one.role]),
        makespan_ms=makespan_ms,
        wasted_mib_s=arena.mib_s,
        overshoot_bytes=None if peak is None else max(0, peak - ground.memory_bytes),
        leaked=leaked,
        freezes=0 if counted is None else counted.freezes,
        frozen_ms=0 if counted is None else counted.frozen_ms,
        delayed=0 if counted is None else counted.delayed,
    )


def _arranged(tree: SessionTree, parts: Sequence[Part], arm: Arm, ground: Ground) -> _Arena:
    """Put in force what the arm stands for."""
    tree.limit(ground.memory_bytes)
    tree.root.set_weight(_ROOT_WEIGHT)
    groups = {part.role.value: tree.session(part.role.value) for part in parts}
    share = ground.memory_bytes // max(1, len(parts))
    arena = _Arena(ground=ground, arm=arm, tree=tree, isolator=None, set_aside_bytes=0)
    for group in groups.values():
        group.set_weight(_EVEN_WEIGHT)
    match arm:
        case Arm.STATIC:
            arena.set_aside_bytes = ground.memory_bytes
            for name in groups:
                tree.limit(share, session=name)
        case Arm.MEMORY_HIGH:
            arena.set_aside_bytes = ground.memory_bytes
            for name, group in groups.items():
                if not tree.slow_above(share, session=name):
                    arena.slowed[name] = (share, str(group.usage_path))
        case Arm.FLYBALL | Arm.DECLARED:
            arena.isolator = Isolator(
                IsolationControl(),
                group_of=groups.get,
                capacity_of=lambda _: ground.memory_bytes,
                elapsed_ms=ground.elapsed_ms,
            )
            for part in parts:
                arena.isolator.present(part.role.value, part.role.priority)
        case Arm.NONE | Arm.ALONE:
            pass
    return arena


async def _run(arena: _Arena, parts: Sequence[Part], ended: list[SessionOutcome]) -> float:
    """Run the sessions to their ends; return how long it took from the first call on."""
    async with anyio.create_task_group() as background:
        bases = [await _base(arena, part) for part in parts]
        if arena.isolator is not None:
            background.start_soon(arena.isolator.run)
        background.start_soon(_sample, arena)
        began = arena.ground.elapsed_ns()
        async with anyio.create_task_group() as running:
            for part, base in zip(parts, bases, strict=True):
                running.start_soon(_session, arena, part, base, ended)
        makespan_ms = (arena.ground.elapsed_ns() - began) / _NS_PER_MS
        background.cancel_scope.cancel()
    with anyio.CancelScope(shield=True):
        for process, group in bases:
            if process.returncode is None:
                process.kill()
            await group.end()
            await process.aclose()
    return makespan_ms


async def _base(arena: _Arena, part: Part) -> tuple[Process, CallGroup]:
    """Start what a session holds between its calls; return when it holds it."""
    group = arena.tree.call(part.role.value, "base")
    memory = max(0, part.trace.base_bytes - _INTERPRETER_BYTES)
    process = await _started(group, (memory, 0, 0, 0), slowed=None)
    assert process.stdout is not None
    with anyio.fail_after(_READY_SECONDS_MAX):
        await process.stdout.receive()
    return process, group


async def _session(
    arena: _Arena, part: Part, base: tuple[Process, CallGroup], ended: list[SessionOutcome]
) -> None:
    """Make the calls of one session, one after another."""
    walls: list[float] = []
    steps: list[int] = []
    nominal = killed = timed_out = 0
    is_complete = True
    began = arena.ground.elapsed_ns()
    for number, call in enumerate(part.trace.calls):
        await anyio.sleep(call.gap_ms / 1000)
        if base[1].memory_kills():
            is_complete = False  # what holds the session together is gone
            break
        asked = arena.ground.elapsed_ns()
        async with _admitted(arena, part, call):
            ending = await _call(arena, part, call, f"call-{number}")
        if ending is None:
            timed_out, is_complete = 1, False
            break  # whoever waits for it has given up
        if ending.was_killed:
            killed += 1
        else:
            walls.append((arena.ground.elapsed_ns() - asked) / _NS_PER_MS)
            steps += ending.steps_us
            nominal += call.duration_ms
            continue
        # What a call that was ended held has been held for nothing.
        arena.mib_s += call.memory_bytes / MIB * call.duration_ms / 2 / 1000
    killed += base[1].memory_kills()
    ended.append(
        SessionOutcome(
            role=part.role,
            walls_ms=walls,
            steps_us=steps,
            done_nominal_ms=nominal,
            session_ms=(arena.ground.elapsed_ns() - began) / _NS_PER_MS,
            killed=killed,
            timed_out=timed_out,
            is_complete=is_complete,
        )
    )


@asynccontextmanager
async def _admitted(arena: _Arena, part: Part, call: Call) -> AsyncIterator[None]:
    if arena.isolator is None:
        yield
        return
    expected_bytes = part.expected_bytes(call, declared=arena.arm is Arm.DECLARED)
    async with arena.isolator.call(
        part.role.value, part.role.priority, expected_bytes=expected_bytes
    ):
        yield


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    was_killed: bool
    steps_us: Sequence[int]


async def _call(arena: _Arena, part: Part, call: Call, name: str) -> _Ending | None:
    """Be one call from its start to its end; None is one that took too long."""
    group = arena.tree.call(part.role.value, name)
    steps = max(2, min(_STEPS_MAX, call.duration_ms // _STEP_MS))
    memory = max(0, call.memory_bytes - _INTERPRETER_BYTES)
    wait_us = max(0, call.duration_ms - call.cpu_ms) * 1000
    said = b""
    is_over = False
    process = await _started(
        group, (memory, call.cpu_ms * 1000, wait_us, steps), slowed=arena.slowed.get(part.role)
    )
    try:
        assert process.stdout is not None
        with anyio.move_on_after(CALL_SECONDS_MAX):
            async for piece in process.stdout:
                said += piece
            await process.wait()
            is_over = True
        return (
            _Ending(
                was_killed=bool(group.memory_kills()), steps_us=[int(word) for word in said.split()]
            )
            if is_over
            else None
        )
    finally:
        with anyio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await group.end()
            await process.aclose()


async def _started(
    group: CallGroup, numbers: tuple[int, int, int, int], *, slowed: tuple[int, str] | None
) -> Process:
    high, usage = slowed or (0, "-")
    return await anyio.open_process(
        (*_BARE, _HOG, *map(str, numbers), str(high), usage, *group.join),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={},
    )


async def _sample(arena: _Arena) -> None:
    """Add up what is set aside and not used, as long as this runs."""
    before = arena.ground.elapsed_ns()
    while True:
        await anyio.sleep(_SAMPLE_SECONDS)
        now = arena.ground.elapsed_ns()
        aside = arena.set_aside_bytes
        if arena.isolator is not None:
            aside = arena.isolator.promised_bytes
        unused = max(0, aside - arena.tree.root.held_bytes())
        if aside:
            arena.mib_s += unused / MIB * (now - before) / _NS_PER_MS / 1000
        before = now
