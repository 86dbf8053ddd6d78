"""What a model is told of how a command ended, as far as it is known."""

from dataclasses import replace

import pytest

from ebpf.command import EndCause, Level, Victim
from governor.ladder import Rung
from governor.raising import Culprit, Story
from runtime.endings import explanation_of
from tests.runtime.test_local_commands import ENDINGS, LIMITS, MIB, SHARES, ended


@pytest.mark.parametrize("cause", EndCause)
def test_every_ending_is_explained_with_its_limit_and_the_peak(cause: EndCause) -> None:
    figures, words = ENDINGS[cause]

    said = explanation_of(ended(cause, **figures), LIMITS, SHARES)

    assert [word for word in words if word not in said] == []


def test_a_command_that_went_well_is_not_explained() -> None:
    assert explanation_of(ended(exit_code=0), LIMITS) == ""


@pytest.mark.parametrize("cause", EndCause)
def test_a_peak_that_nobody_measured_is_not_made_up(cause: EndCause) -> None:
    figures, _ = ENDINGS[cause]

    said = explanation_of(ended(cause, memory_peak_bytes=None, **figures), LIMITS)

    assert "peak" not in said
    assert "None" not in said


@pytest.mark.parametrize(("exit_code", "expected"), [(0, ""), (1, "exit code 1; ")])
def test_processes_that_the_kernel_refused_are_told_however_it_ended(
    exit_code: int, expected: str
) -> None:
    refused = replace(ended(exit_code=exit_code, pids_limit_hits=3), pids_refused_by=Level.CALL)

    assert (
        explanation_of(refused, LIMITS)
        == f"{expected}3 process starts were refused by the limit of 7"
    )


def test_one_process_that_was_refused_is_told_as_one() -> None:
    refused = replace(ended(exit_code=0, pids_limit_hits=1), pids_refused_by=Level.CALL)

    assert explanation_of(refused, LIMITS) == "1 process start was refused by the limit of 7"


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (Level.SESSION, "the limit of 40 for all calls of this session together"),
        (Level.MACHINE, "by the machine, not by a limit of this call"),
        (None, "by a limit on processes; this call's own is 7"),
    ],
)
def test_whose_limit_refused_a_process_is_told_only_where_it_is_known(
    level: Level | None, words: str
) -> None:
    refused = replace(ended(exit_code=0, pids_limit_hits=3), pids_refused_by=level)

    assert words in explanation_of(refused, LIMITS, SHARES)


def test_the_process_that_the_kernel_chose_is_named() -> None:
    killed = replace(ended(EndCause.MEMORY, signal=9), victim=Victim(pid=42, comm="cc1plus"))

    assert "process 42, cc1plus" in explanation_of(killed, LIMITS)


def test_how_a_command_went_up_the_ladder_is_told_with_two_ways_on() -> None:
    story = Story(
        path=(Rung.FREE, Rung.THROTTLED, Rung.ASKING, Rung.ENDED),
        limit_bytes=128 * MIB,
        raises=1,
        culprit=Culprit(pid=7, name="cc1plus", rss_bytes=100 * MIB),
        said=("a person raised its limit to 128 MiB", "a person refused it more: enough"),
    )
    stuck = replace(ended(EndCause.STUCK, signal=9), story=story)
    limits = replace(LIMITS, memory_ceiling_bytes=256 * MIB)

    said = explanation_of(stuck, limits)

    for words in (
        "memory limit of 128 MiB",
        "cc1plus (process 7) held 100 MiB",
        "it was slowed down",
        "it was given more memory once",
        "a person refused it more: enough",
        "Work on less at a time",
        "more was not granted",
    ):
        assert words in said


@pytest.mark.parametrize("said", ["a person refused it more: no", "a person did not answer"])
def test_who_was_not_given_more_memory_is_not_told_to_take_it(said: str) -> None:
    story = Story(path=(Rung.FREE, Rung.ASKING, Rung.ENDED), said=(said,))
    stuck = replace(ended(EndCause.STUCK, signal=9), story=story)

    told = explanation_of(stuck, replace(LIMITS, memory_ceiling_bytes=256 * MIB))

    assert "resources" not in told
    assert f"it was frozen; {said}" in told


def test_who_was_never_turned_down_is_told_how_to_declare_more() -> None:
    stuck = replace(ended(EndCause.STUCK, signal=9), story=Story())

    told = explanation_of(stuck, replace(LIMITS, memory_ceiling_bytes=256 * MIB))

    assert "where N is up to 256" in told
