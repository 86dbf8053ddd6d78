"""How a command went up the ladder, in the words that a model reads."""

from dataclasses import replace

from ebpf.command import EndCause
from governor.ladder import Rung
from governor.raising import Culprit, Story
from runtime.endings import explanation_of
from tests.runtime.test_local_commands import LIMITS, MIB, ended


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
        "it was given more memory, times 1",
        "a person refused it more: enough",
        "Work on less at a time",
        "where N is up to 256",
    ):
        assert words in said
