import json
from pathlib import Path

import pytest

from runtime.cli.command_line import run
from runtime.evaluate.os import evaluation
from runtime.evaluate.os.mixes import MIB, Mix
from runtime.evaluate.os.outcome import Arm
from runtime.evaluate.os.simulator import STEP_MS, all_mixes, simulate
from tests.runtime.evaluate.os_makers import call, line, mix, trace, write_lines

LARGE = call(ms=1_000, cpu_ms=100, mib=60)


def three(*, expected_mib: int = 60) -> Mix:
    return mix(*(trace(name, LARGE) for name in "abc"), expected_mib=expected_mib)


def test_without_isolation_what_does_not_fit_is_killed() -> None:
    found = simulate(three(), Arm.NONE, memory_bytes=160 * MIB)

    assert any(one.killed for one in found.sessions)


@pytest.mark.requirement("eval.os-simulated")
@pytest.mark.parametrize("expected_mib", [60, 16])
def test_the_products_decisions_keep_all_three_alive(expected_mib: int) -> None:
    found = simulate(three(expected_mib=expected_mib), Arm.FLYBALL, memory_bytes=160 * MIB)

    assert all(one.survived for one in found.sessions)
    assert found.sessions[0].walls_ms[0] <= 1_000 + 2 * STEP_MS


def test_static_limits_kill_what_would_have_fit() -> None:
    one_large = mix(trace("a", LARGE), trace("b"), trace("c"))

    found = simulate(one_large, Arm.STATIC, memory_bytes=160 * MIB)

    assert [one.survived for one in found.sessions] == [False, True, True]


def test_above_memory_high_a_call_comes_to_no_end() -> None:
    found = simulate(
        mix(trace("a", LARGE), trace("b"), trace("c")), Arm.MEMORY_HIGH, memory_bytes=160 * MIB
    )

    assert found.sessions[0].timed_out == 1


def test_alone_a_session_takes_its_own_time() -> None:
    found = simulate(three(), Arm.ALONE, memory_bytes=160 * MIB)

    assert all(one.survived for one in found.sessions)
    assert all(one.session_ms <= 1_000 + 3 * STEP_MS for one in found.sessions)


def test_two_that_want_more_processors_than_there_are_share_them_by_weight() -> None:
    spinning = call(ms=1_000, cpu_ms=1_000)
    busy = mix(*(trace(name, spinning) for name in "abc"), expected_mib=16)

    even = simulate(busy, Arm.NONE, memory_bytes=1_000 * MIB)
    weighted = simulate(busy, Arm.FLYBALL, memory_bytes=1_000 * MIB)

    assert even.sessions[0].walls_ms[0] == pytest.approx(1_500, abs=3 * STEP_MS)
    assert weighted.sessions[0].walls_ms[0] == pytest.approx(1_000, abs=3 * STEP_MS)


def test_every_session_is_in_one_mix_a_round_unless_it_has_no_schedule() -> None:
    traces = [trace(f"task-{n}") for n in range(9)]

    found = all_mixes(traces, memory_bytes=200 * MIB, seed=0, rounds=2)

    tasks = [part.trace.task for mix in found for part in mix.parts]
    assert sorted(tasks) == sorted([one.task for one in traces] * 2)
    assert (
        all_mixes(
            [trace(n, call(mib=500)) for n in "abc"], memory_bytes=200 * MIB, seed=0, rounds=1
        )
        == ()
    )


@pytest.mark.requirement("eval.os-simulated")
def test_the_command_says_that_a_schedule_is_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [[1.0, 2.0, "Bash", "test", "x"]]
    write_lines(tmp_path, *(line(name, calls) for name in "abc"))

    code = run(["eval", "os", "--data", str(tmp_path), "--simulate", "--mixes", "1", "--json"])

    found = json.loads(capsys.readouterr().out)
    assert code == 0
    assert (found["simulated"], found["backend"]) == (True, "simulator")
    assert [arm["name"] for arm in found["arms"]] == ["none", "static", "memory_high", "flyball"]


@pytest.mark.requirement("eval.os")
def test_a_host_without_root_is_refused_with_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation.os, "geteuid", lambda: 1000)

    code = run(["eval", "os", "--data", str(tmp_path)])

    assert code != 0
    assert "needs root (or --simulate)" in capsys.readouterr().err


def test_an_unknown_arm_is_refused_with_those_that_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(["eval", "os", "--data", str(tmp_path), "--arms", "none,magic"])

    assert code != 0
    assert (
        "give some of none, static, memory_high, flyball, flyball_declared"
        in capsys.readouterr().err
    )


def test_memory_in_which_no_mix_fits_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [[1.0, 2.0, "Bash", "test", "x"]]
    write_lines(tmp_path, *(line(name, calls) for name in "abc"))

    code = run(["eval", "os", "--data", str(tmp_path), "--simulate", "--memory-mib", "1"])

    assert code != 0
    assert "no mix fits in 1 MiB" in capsys.readouterr().err


def test_one_mix_is_not_told_as_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    calls = [[1.0, 2.0, "Bash", "test", "x"]]
    write_lines(tmp_path, *(line(name, calls) for name in "abc"))

    run(["eval", "os", "--data", str(tmp_path), "--simulate", "--mixes", "1"])

    assert ", 1 mix:" in capsys.readouterr().out
