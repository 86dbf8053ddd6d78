"""The ladder of whole commands on a v2 hierarchy: slowed down, asked about, raised or killed."""

import os
from pathlib import Path

import anyio
import pytest

from ebpf.capability import BackendKind, probe_host
from ebpf.executor import EndCause, LocalExecutor
from ebpf.ladder import LadderPlan
from governor.ladder import LadderTerms, Rung, Sight
from governor.limits import ExecutionLimits
from governor.raising import MemoryAnswer, MemoryQuestion
from tests.ebpf.commands import MIB, python

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]

HOG = """
held = []
while len(held) < {mib}:
    held.append(bytearray(b"x" * 1048576))
print("has it all")
"""
LIMITS = ExecutionLimits(
    memory_bytes=64 * MIB,
    pids=64,
    cpu_millis=None,
    cpu_ms=None,
    wall_ms=60_000,
    output_bytes=MIB,
    memory_ceiling_bytes=256 * MIB,
)


@pytest.fixture
def executor(tmp_path: Path) -> LocalExecutor:
    if os.geteuid() != 0:
        pytest.skip("needs root: control groups are made and another user is become")
    host = probe_host()
    if host.backend is not BackendKind.V2:
        pytest.skip(f"needs control groups of version 2; this host has {host.backend}")
    return LocalExecutor(host=host, state_dir=tmp_path, user="nobody")


@pytest.mark.requirement("ladder.stall-is-noticed")
@pytest.mark.requirement("ladder.never-over-the-hard-limit")
async def test_a_stuck_command_that_nobody_is_asked_about_is_killed_below_its_limit(
    executor: LocalExecutor,
) -> None:
    with anyio.fail_after(60):
        result = await executor.run(
            "stuck", python(HOG.format(mib=400)), LIMITS, plan=LadderPlan(terms=LadderTerms())
        )

    assert result.cause in (EndCause.STUCK, EndCause.MEMORY)
    assert result.memory_peak_bytes is not None
    assert result.memory_peak_bytes <= 64 * MIB
    assert result.story is not None
    assert Rung.THROTTLED in result.story.path
    assert result.story.culprit is not None
    # Without the ladder it would have stood there until its time was over.
    assert result.wall_ms < 30_000


@pytest.mark.requirement("ladder.raise-goes-on")
@pytest.mark.requirement("ladder.never-over-the-hard-limit")
async def test_a_command_that_is_given_more_goes_on_within_what_it_was_given(
    executor: LocalExecutor,
) -> None:
    questions: list[MemoryQuestion] = []

    async def ask(question: MemoryQuestion) -> MemoryAnswer:
        questions.append(question)
        return MemoryAnswer(sight=Sight.RAISED, memory_bytes=question.wanted_bytes)

    with anyio.fail_after(60):
        result = await executor.run(
            "more",
            python(HOG.format(mib=80)),
            LIMITS,
            plan=LadderPlan(terms=LadderTerms(), ask=ask),
        )

    assert (result.cause, result.stdout) == (EndCause.EXITED, b"has it all\n")
    assert [question.wanted_bytes for question in questions] == [128 * MIB]
    assert result.memory_peak_bytes is not None
    assert result.memory_peak_bytes <= 128 * MIB
    assert result.frozen_ms >= 0
