"""The ladder of commands that run out of memory, on this machine's own control groups."""

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from ebpf.capability import probe_host
from ebpf.executor import CommandResult, EndCause, LocalExecutor
from ebpf.ladder import Ask, LadderPlan
from governor.ladder import LadderTerms, Rung, Sight
from governor.limits import ExecutionLimits
from governor.raising import MemoryAnswer, MemoryQuestion
from tests.ebpf.commands import MIB, limits, python

pytestmark = [pytest.mark.kernel, pytest.mark.anyio]

# Takes memory piece by piece, and says so when it has all.
HOG = """
held = []
while len(held) < {mib}:
    held.append(bytearray(b"x" * {piece}))
    {then}
print("has it all")
"""
GRANTED = MemoryAnswer(sight=Sight.RAISED, memory_bytes=128 * MIB, said="the test gave it more")


def hog(*, mib: int, then: str = "pass") -> str:
    return HOG.format(mib=mib, piece=MIB, then=then)


def plan(ask: Ask | None = None, *, full_permille: int = 950) -> LadderPlan:
    terms = LadderTerms(throttle_permille=500, full_permille=full_permille)
    return LadderPlan(terms=terms, ask=ask)


def small(ceiling_mib: int | None = 128) -> ExecutionLimits:
    ceiling = None if ceiling_mib is None else ceiling_mib * MIB
    return ExecutionLimits(
        memory_bytes=64 * MIB,
        pids=64,
        cpu_millis=None,
        cpu_ms=None,
        wall_ms=20_000,
        output_bytes=MIB,
        memory_ceiling_bytes=ceiling,
    )


class Asked:
    """Answers every question alike, after a while, and keeps them."""

    def __init__(self, answer: MemoryAnswer, *, after_s: float = 0.0) -> None:
        self.questions: list[MemoryQuestion] = []
        self.asked = anyio.Event()
        self._answer = answer
        self._after_s = after_s

    async def __call__(self, question: MemoryQuestion) -> MemoryAnswer:
        self.questions.append(question)
        self.asked.set()
        await anyio.sleep(self._after_s)
        return self._answer


@pytest.mark.requirement("ladder.raise-goes-on")
async def test_a_full_command_waits_frozen_for_the_answer_and_goes_on_with_more(
    executor: LocalExecutor,
) -> None:
    asked = Asked(GRANTED, after_s=1.0)

    with anyio.fail_after(60):
        result = await executor.run("full", python(hog(mib=90)), small(), plan=plan(asked))

    (question,) = asked.questions
    assert (result.cause, result.stdout) == (EndCause.EXITED, b"has it all\n")
    assert (question.limit_bytes, question.wanted_bytes) == (64 * MIB, 128 * MIB)
    assert question.culprit is not None
    assert "python" in question.culprit.name
    # While it was asked about its time stood still.
    assert result.frozen_ms >= 1_000
    assert result.story is not None
    assert (result.story.raises, result.story.limit_bytes) == (1, 128 * MIB)
    assert Rung.ASKING in result.story.path


@pytest.mark.requirement("ladder.never-over-the-hard-limit")
async def test_no_command_ever_has_more_than_it_was_granted(executor: LocalExecutor) -> None:
    asked = Asked(GRANTED)

    with anyio.fail_after(60):
        result = await executor.run("greedy", python(hog(mib=400)), small(), plan=plan(asked))

    assert result.cause is EndCause.MEMORY
    assert result.memory_peak_bytes is not None
    assert result.memory_peak_bytes <= 128 * MIB
    # At its ceiling there is nothing more to ask for: the kernel's limit decides.
    assert len(asked.questions) == 1


@pytest.mark.parametrize("answer", [Sight.CANCELLED, Sight.DROPPED])
async def test_a_command_that_is_given_nothing_is_killed_with_the_reason(
    executor: LocalExecutor, answer: Sight
) -> None:
    asked = Asked(MemoryAnswer(sight=answer, said="the test said no"))

    with anyio.fail_after(60):
        result = await executor.run("no", python(hog(mib=90)), small(), plan=plan(asked))

    assert result.cause is EndCause.STUCK
    assert result.stdout == b""
    assert result.story is not None
    assert result.story.said == ("the test said no",)


async def test_a_command_that_is_left_to_its_limit_ends_there(executor: LocalExecutor) -> None:
    asked = Asked(MemoryAnswer(sight=Sight.LEFT))

    with anyio.fail_after(60):
        result = await executor.run("left", python(hog(mib=90)), small(), plan=plan(asked))

    assert result.cause is EndCause.MEMORY
    assert result.memory_peak_bytes is not None
    assert result.memory_peak_bytes <= 64 * MIB


async def test_without_anybody_to_ask_the_kernels_limit_ends_it_as_ever(
    executor: LocalExecutor,
) -> None:
    with anyio.fail_after(60):
        result = await executor.run("alone", python(hog(mib=90)), small(), plan=plan())

    assert result.cause is EndCause.MEMORY
    assert result.frozen_ms == 0


async def test_a_slow_command_that_is_killed_for_memory_is_known_by_its_largest_process(
    executor: LocalExecutor,
) -> None:
    slow = hog(mib=90, then="__import__('time').sleep(0.05)")

    with anyio.fail_after(60):
        result = await executor.run("slow", python(slow), small(None), plan=plan())

    assert result.cause is EndCause.MEMORY
    assert result.story is not None
    assert result.story.culprit is not None
    assert result.story.culprit.rss_bytes > 30 * MIB


@pytest.mark.requirement("ladder.administrators-freeze-stands")
async def test_what_an_administrator_froze_stays_frozen_when_the_ladder_gives_it_more(
    executor: LocalExecutor, groups: Callable[[str], list[Path]]
) -> None:
    asked, results = Asked(GRANTED, after_s=0.3), list[CommandResult]()

    async def run() -> None:
        command = python(hog(mib=90))
        results.append(await executor.run("both", command, small(), plan=plan(asked)))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await asked.asked.wait()
            assert await executor.freeze("both")
            # The ladder's answer comes in this time, and must not let it go on.
            await anyio.sleep(1)
            still = not results
            unified = next(path for path in groups("both") if (path / "cgroup.freeze").exists())
            frozen = (unified / "cgroup.freeze").read_text().strip()
            assert await executor.thaw("both")

    assert still
    assert frozen == "1"
    assert results[0].stdout == b"has it all\n"


@pytest.mark.parametrize("answer", [GRANTED, MemoryAnswer(sight=Sight.DROPPED)])
async def test_sampled_commands_are_frozen_and_asked_about_as_well(
    state_dir: Path, answer: MemoryAnswer
) -> None:
    observed = LocalExecutor(host=probe_host(force_rlimit=True), state_dir=state_dir, user="nobody")
    asked = Asked(answer)
    # A sample every 100 ms, or later on a busy machine, must fall between frozen and killed.
    slow = hog(mib=80, then="__import__('time').sleep(0.05)")

    with anyio.fail_after(60):
        result = await observed.run(
            "sampled", python(slow), small(), plan=plan(asked, full_permille=600)
        )

    assert len(asked.questions) == 1
    assert result.frozen_ms > 0
    expected = EndCause.EXITED if answer is GRANTED else EndCause.STUCK
    assert result.cause is expected


async def test_a_command_without_a_memory_limit_has_no_ladder(executor: LocalExecutor) -> None:
    with anyio.fail_after(60):
        result = await executor.run(
            "free", python("print(1)"), limits(memory_bytes=None), plan=plan()
        )

    assert (result.cause, result.story) == (EndCause.EXITED, None)
