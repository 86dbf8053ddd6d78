"""Replaying seeded mixes in every arm, interleaved, within a bound of time."""

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebpf.capability import probe_host
from ebpf.errors import EbpfError
from ebpf.session_tree import Places, places_of
from runtime.clock import SystemClock
from runtime.errors import RuntimeFaultError
from runtime.evaluate.os.checkpoint import Checkpoint
from runtime.evaluate.os.figures import paired, shape_of
from runtime.evaluate.os.mixes import MIB, SESSIONS, Mix, mixes_of
from runtime.evaluate.os.outcome import Arm, Outcome
from runtime.evaluate.os.replay import Ground, replay
from runtime.evaluate.os.simulator import all_mixes, simulate
from runtime.evaluate.os.traces import read_traces

_MS_PER_MINUTE = 60_000
_ATTEMPTS = 3

Told = Callable[[str], None]


class NoGroupsError(RuntimeFaultError):
    """This host has no control groups that the replay could use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is replayed: which arms, how many mixes, at which sizes of memory, for how long."""

    data: Path
    arms: tuple[Arm, ...]
    mixes: int
    memory_mib: tuple[int, ...]
    window_ms: int
    seed: int
    minutes: int
    resume: Path | None = None
    left_out: frozenset[str] = frozenset()

    @property
    def terms(self) -> dict[str, Any]:
        """Return what must be the same for two parts of one evaluation."""
        return {"seed": self.seed, "window_ms": self.window_ms}


def usable_places() -> tuple[Places, str]:
    """Return where control groups can be made, and of which kind they are.

    Raises:
        NoGroupsError: nowhere.
    """
    if os.geteuid() != 0:
        raise NoGroupsError("eval os: control groups are made, so this needs root (or --simulate)")
    try:
        return places_of(probe_host())
    except EbpfError as error:
        message = f"eval os: {error}; --simulate needs no control groups"
        raise NoGroupsError(message) from error


async def evaluate_os(plan: Plan, *, told: Told) -> dict[str, Any]:
    """Return the evaluation's JSON; mixes that were begun when time ran out are left out.

    Raises:
        RuntimeFaultError: the data, the resume file or the host is of no use.
        EbpfError: the kernel refused a group.
    """
    places, backend = usable_places()
    traces = read_traces(plan.data)
    checkpoint = Checkpoint(plan.resume, plan.terms)
    clock = SystemClock()
    ends_ms = clock.elapsed_ms() + plan.minutes * _MS_PER_MINUTE
    for memory_mib in plan.memory_mib:
        mixes = mixes_of(
            traces,
            count=plan.mixes,
            memory_bytes=memory_mib * MIB,
            window_ms=plan.window_ms,
            seed=plan.seed,
        )
        ground = Ground(
            places=places,
            memory_bytes=memory_mib * MIB,
            elapsed_ns=clock.elapsed_ns,
            instance=f"eval-{os.getpid()}",
        )
        longest_ms = 0
        for mix in mixes:
            began_ms = clock.elapsed_ms()
            if began_ms + longest_ms > ends_ms:
                break
            await _in_every_arm(mix, plan, ground, checkpoint, told)
            longest_ms = max(longest_ms, clock.elapsed_ms() - began_ms)
    return shape(checkpoint.outcomes, plan, backend=backend)


def simulate_os(plan: Plan, *, told: Told) -> dict[str, Any]:
    """Return the evaluation's JSON of whole sessions in a simulated schedule.

    Raises:
        RuntimeFaultError: the data is of no use.
    """
    traces = read_traces(plan.data)
    outcomes: list[Outcome] = []
    for memory_mib in plan.memory_mib:
        memory_bytes = memory_mib * MIB
        rounds = max(1, round(plan.mixes * SESSIONS / len(traces)))
        mixes = all_mixes(traces, memory_bytes=memory_bytes, seed=plan.seed, rounds=rounds)
        for mix in mixes:
            told(f"simulated mix {mix.number + 1} of {len(mixes)}, {memory_mib} MiB")
            outcomes += [
                simulate(mix, arm, memory_bytes=memory_bytes) for arm in (Arm.ALONE, *plan.arms)
            ]
    return shape(outcomes, plan, backend="simulator", is_simulated=True)


async def _in_every_arm(
    mix: Mix, plan: Plan, ground: Ground, checkpoint: Checkpoint, told: Told
) -> None:
    """Replay a mix in each arm, in an order of its own."""
    order = [Arm.ALONE, *plan.arms]
    random.Random(f"{plan.seed} {mix.number}").shuffle(order)  # noqa: S311 - no secret
    memory_mib = ground.memory_bytes // MIB
    for arm in order:
        if not checkpoint.has(mix=mix.number, arm=arm, memory_mib=memory_mib):
            told(f"mix {mix.number + 1} of {plan.mixes}, {memory_mib} MiB: {arm.value}")
            checkpoint.add(await _replayed(mix, arm, ground, told))


async def _replayed(mix: Mix, arm: Arm, ground: Ground, told: Told) -> Outcome:
    """Return a replay; one that the machine could not carry through is made again.

    Raises:
        EbpfError: it could not carry any through.
    """
    for left in reversed(range(_ATTEMPTS)):
        outcome = None
        try:
            outcome = await replay(mix, arm, ground)
        except* EbpfError as errors:
            told(f"mix {mix.number + 1}: {arm.value} again: {errors.exceptions[0]}")
            if not left:
                raise
        if outcome is not None:
            return outcome
    raise AssertionError("the last attempt returns or raises")


def shape(
    outcomes: Sequence[Outcome], plan: Plan, *, backend: str, is_simulated: bool = False
) -> dict[str, Any]:
    """Return the evaluation's JSON of what was replayed in all arms."""
    complete = _complete(outcomes, plan)
    arms = [
        shape_of(_name(arm, backend), memory_mib, pairs, seed=plan.seed, left_out=plan.left_out)
        for memory_mib in plan.memory_mib
        for arm in plan.arms
        if (pairs := paired(complete, arm, memory_mib))
    ]
    return {"arms": arms, "backend": backend, "simulated": is_simulated}


def _complete(outcomes: Sequence[Outcome], plan: Plan) -> list[Outcome]:
    """Return the outcomes of the mixes that were replayed in every arm.

    A mix whose sessions lost a call alone was disturbed from outside and proves nothing.
    """
    wanted = {Arm.ALONE, *plan.arms}
    done: dict[tuple[int, int], set[Arm]] = {}
    for one in outcomes:
        if one.arm is not Arm.ALONE or all(session.survived for session in one.sessions):
            done.setdefault((one.memory_mib, one.mix), set()).add(one.arm)
    return [one for one in outcomes if done.get((one.memory_mib, one.mix), set()) >= wanted]


def _name(arm: Arm, backend: str) -> str:
    """Return an arm's name; control groups of version 1 know no `memory.high`."""
    if arm is Arm.MEMORY_HIGH and backend == "hybrid":
        return f"{arm.value} (emulated)"
    return arm.value
