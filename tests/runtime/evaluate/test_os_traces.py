from pathlib import Path

import pytest

from runtime.evaluate.os.mixes import MIB, MixError, expectations, is_contended, mixes_of
from runtime.evaluate.os.traces import CALL_MS_MAX, FILE, TracesError, read_traces
from tests.runtime.evaluate.os_makers import call, line, trace, write_lines


def test_a_call_holds_what_the_session_held_above_the_last_sample_before_it(
    tmp_path: Path,
) -> None:
    samples = [[0.0, 12.0, 0, 90.0], [1.0, 200.0, 0, 10.0], [2.0, 200.0, 0, 10.0]]
    samples += [[3.0, 240.0, 0, 80.0], [4.0, 300.0, 0, 100.0], [5.0, 200.0, 0, 10.0]]
    write_lines(tmp_path, line("one", [[2.5, 3.5, "Bash", "test", "pytest"]], samples=samples))

    (found,) = read_traces(tmp_path)

    assert found.base_bytes == 200_000_000
    assert found.calls[0].kind == "Bash:test"
    assert found.calls[0].memory_bytes == 100_000_000
    assert found.calls[0].duration_ms == 1_000
    assert found.calls[0].cpu_ms == 900


def test_calls_are_capped_and_gaps_compressed(tmp_path: Path) -> None:
    calls = [[1.0, 100.0, "Bash", "test", "x"], [101.0, 101.1, "Read", None, None]]
    write_lines(tmp_path, line("one", calls))

    (found,) = read_traces(tmp_path)

    assert found.calls[0].duration_ms == CALL_MS_MAX
    assert [one.gap_ms for one in found.calls] == [100, 100]


def test_durations_that_contain_a_models_answer_are_drawn_from_calls_of_the_same_kind(
    tmp_path: Path,
) -> None:
    timed = line("timed", [[1.0, 1.25, "Bash", "test", "x"], [3.0, 3.01, "Read", None, None]])
    other = line("other", [[1.0, 9.0, "Bash", "test", "x"]], model="glm")
    write_lines(tmp_path, timed, other)

    _, found = read_traces(tmp_path)

    assert found.calls[0].duration_ms == 250


@pytest.mark.requirement("eval.os")
def test_missing_data_is_refused_with_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(TracesError, match=rf"--data names the folder that holds {FILE}"):
        read_traces(tmp_path)


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    path = write_lines(tmp_path, line("one", [[1.0, 2.0, "Bash", "test", "x"]]))
    path.write_text(path.read_text() + '{"task": 1}\n')

    with pytest.raises(TracesError, match=":2: not a recorded session"):
        read_traces(tmp_path)


def test_a_mix_contends_when_peaks_do_not_fit_together_though_each_would() -> None:
    large = [trace(name, call(mib=100)) for name in "abc"]

    assert is_contended(large, 250 * MIB)
    assert not is_contended(large, 400 * MIB)
    assert not is_contended(large, 150 * MIB)


def test_mixes_are_the_same_again_for_a_seed_and_hold_three_tasks() -> None:
    traces = [trace(f"task-{n}", call(ms=50), call(mib=60 + n), call(ms=50)) for n in range(8)]

    def drawn(seed: int) -> list[list[str]]:
        mixes = mixes_of(traces, count=5, memory_bytes=200 * MIB, window_ms=120, seed=seed)
        return [[part.trace.task for part in mix.parts] for mix in mixes]

    assert drawn(1) == drawn(1) != drawn(2)
    assert all(len(set(tasks)) == 3 for tasks in drawn(1))


def test_a_window_holds_the_largest_call() -> None:
    calls = [call(ms=100), call(ms=100), call(ms=100, mib=80), call(ms=100), call(ms=100)]
    traces = [trace(name, *calls) for name in "abc"]

    (found,) = mixes_of(traces, count=1, memory_bytes=230 * MIB, window_ms=300, seed=0)

    assert all(part.trace.peak_bytes == 80 * MIB for part in found.parts)
    assert all(1 < len(part.trace.calls) < 5 for part in found.parts)


def test_too_few_mixes_are_refused_with_how_many_there_are() -> None:
    traces = [trace(name) for name in "abc"]

    with pytest.raises(MixError, match="only 0 of 2 mixes contend for 100 MiB"):
        mixes_of(traces, count=2, memory_bytes=100 * MIB, window_ms=100, seed=0)


def test_what_is_expected_of_a_call_was_learned_from_other_tasks_alone() -> None:
    others = [trace(f"task-{n}", call(mib=n)) for n in range(1, 11)]
    surprise = trace("surprise", call(mib=900))

    found = expectations([*others, surprise], without="surprise")

    assert found == {"Bash:test": 10 * MIB}
