import pytest

from ebpf.domains.memory_time import MemoryTime

MIB = 1024 * 1024


def test_memory_goes_in_straight_lines_between_samples_and_stays_to_the_end() -> None:
    memory = MemoryTime()
    memory.begin(10.0)
    memory.note(10.0, 0)
    memory.note(12.0, 100 * MIB)
    memory.note(13.0, 40 * MIB)
    memory.end(15.0)

    # A triangle, a trapezium, a rectangle.
    assert memory.mib_s(now=99.0, peak_bytes=100 * MIB) == 100 + 70 + 80


@pytest.mark.parametrize("samples", [0, 1])
def test_a_command_too_short_for_two_samples_is_charged_its_peak_for_all_its_time(
    samples: int,
) -> None:
    memory = MemoryTime()
    memory.begin(10.0)
    for _ in range(samples):
        memory.note(10.0, MIB)
    memory.end(10.05)

    assert memory.mib_s(now=11.0, peak_bytes=64 * MIB) == 4  # 3.2, rounded up


def test_only_the_first_end_counts() -> None:
    memory = MemoryTime()
    memory.begin(0.0)
    memory.end(2.0)
    memory.end(9.0)

    assert memory.mib_s(now=9.0, peak_bytes=MIB) == 2


def test_a_command_that_runs_is_charged_up_to_now() -> None:
    memory = MemoryTime()
    memory.begin(0.0)
    memory.note(0.0, MIB)
    memory.note(1.0, MIB)

    assert memory.mib_s(now=5.0, peak_bytes=MIB) == 5


def test_what_nobody_saw_is_unknown_and_not_zero() -> None:
    never, unseen = MemoryTime(), MemoryTime()
    unseen.begin(0.0)

    assert never.mib_s(now=1.0, peak_bytes=MIB) is None
    assert unseen.mib_s(now=1.0, peak_bytes=None) is None
