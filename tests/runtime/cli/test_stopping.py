"""A command that is told to stop: at any time, without a traceback, with nothing left behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest

from runtime.cli.up import _until_stopped
from runtime.stopping import StopSignals

ROOT = Path(__file__).resolve().parents[3]
FREE_PORTS = '[listen]\nagents = "127.0.0.1:0"\nadmin = "127.0.0.1:0"\n'
IMPATIENT = Path(__file__).with_name("impatient_flyball.py")
SECONDS_MAX = 60
# A server that never says a word, and tells by a file that it was started.
MUTE = 'touch "$0"; exec sleep 600'


@contextmanager
def started(folder: Path, *words: str, path: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    environment = {name: value for name, value in os.environ.items() if "FLYBALL" not in name}
    python = ROOT if path is None else f"{ROOT}:{path}"
    # With packages of others, by limits that a test can wait for.
    program = ["-m", "runtime"] if path is None else [str(IMPATIENT)]
    with subprocess.Popen(
        [sys.executable, *program, *words, "--state", str(folder / "state")],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(python)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as command:
        try:
            yield command
        finally:
            command.kill()


@pytest.mark.anyio
async def test_a_signal_during_a_slow_start_is_honoured_at_once(
    folder: Path,
) -> None:
    flag = folder / "flag"
    command = ["/bin/sh", "-c", MUTE, str(flag)]
    (folder / "flyball.toml").write_text(
        f'{FREE_PORTS}[[upstream]]\nname = "mute"\ncommand = {command!r}\n', encoding="utf-8"
    )

    with started(folder, "up") as sidecar, anyio.fail_after(SECONDS_MAX):
        while not flag.exists():
            await anyio.sleep(0.05)
        sidecar.send_signal(signal.SIGTERM)
        out, err = await anyio.to_thread.run_sync(sidecar.communicate, abandon_on_cancel=True)

    assert (sidecar.returncode, out, err) == (143, "", "")


def test_an_orderly_stop_of_a_sidecar_that_serves_is_no_failure(folder: Path) -> None:
    (folder / "flyball.toml").write_text(f'{FREE_PORTS}[auth]\nmode = "none"\n', encoding="utf-8")

    with started(folder, "up") as sidecar:
        assert sidecar.stdout is not None
        said = [sidecar.stdout.readline() for _ in range(6)]
        sidecar.send_signal(signal.SIGINT)
        _, err = sidecar.communicate(timeout=SECONDS_MAX)

    assert (sidecar.returncode, err) == (0, "")
    assert "  agents need no token: everybody on this machine is 'agent'\n" in said


PLUGGED = '[plugins]\nenabled = ["odd"]\n'
ODD = """
[[upstream]]
name = "{how}"
kind = "odd"
settings = {{ how = "{how}", told = "{told}" }}
"""


@pytest.fixture
def odd(folder: Path) -> Path:
    """Return where a package stands that offers the kind of upstreams of `odd_upstream.py`."""
    site = folder / "site"
    about = site / "odd-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1.0\n")
    offered = "[flyball.upstream_kinds]\nodd = odd_upstream:opened\n"
    (about / "entry_points.txt").write_text(offered, encoding="utf-8")
    shutil.copy(Path(__file__).with_name("odd_upstream.py"), site)
    return site


@pytest.mark.requirement("stop.bounded")
@pytest.mark.requirement("trace.fails-open")
def test_a_plug_in_that_swallows_its_end_and_a_collector_that_hangs_keep_no_process(
    folder: Path, odd: Path
) -> None:
    told = folder / "told"
    with socket.create_server(("127.0.0.1", 0)) as hanging:
        collector = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        upstreams = "".join(ODD.format(how=how, told=told) for how in ("swallows", "closes"))
        (folder / "flyball.toml").write_text(
            f'{FREE_PORTS}[telemetry]\notlp_endpoint = "{collector}"\n{PLUGGED}{upstreams}',
            encoding="utf-8",
        )
        with started(folder, "up", "--json", path=odd) as sidecar:
            assert sidecar.stdout is not None
            assert sidecar.stdout.readline()
            sidecar.send_signal(signal.SIGTERM)
            _, err = sidecar.communicate(timeout=SECONDS_MAX)

    assert sidecar.returncode == 0, err
    assert "plug-in odd (upstream swallows) does not end when told to; it is left behind" in err
    assert "the collector did not take what was left to send" in err
    assert "Traceback" not in err
    assert told.read_text(encoding="utf-8") == "closes is closed\n"


@pytest.mark.requirement("stop.bounded")
def test_a_plug_in_that_blocks_the_whole_process_is_named_and_ended_with_it(
    folder: Path, odd: Path
) -> None:
    (folder / "flyball.toml").write_text(
        FREE_PORTS + PLUGGED + ODD.format(how="blocks", told=folder / "told"), encoding="utf-8"
    )

    with started(folder, "up", "--json", path=odd) as sidecar:
        assert sidecar.stdout is not None
        assert sidecar.stdout.readline()
        sidecar.send_signal(signal.SIGTERM)
        _, err = sidecar.communicate(timeout=SECONDS_MAX)

    assert sidecar.returncode == 2
    assert "ended without: plug-in odd (upstream blocks)" in err
    assert "odd_upstream.py" in err
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_signal_in_the_middle_of_the_tour_ends_it_cleanly(folder: Path) -> None:
    script = ROOT / "tests" / "runtime" / "tour" / "tour_on_free_ports.py"
    with subprocess.Popen(
        [sys.executable, str(script), "tour", "--state", str(folder / "state")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as tour:
        assert tour.stdout is not None
        tour.stdout.readline()
        tour.stdout.readline()
        tour.send_signal(signal.SIGTERM)
        _, err = tour.communicate(timeout=SECONDS_MAX)

    assert (tour.returncode, err) == (143, "")


@pytest.mark.anyio
async def test_a_stop_with_calls_running_says_what_is_waited_for_and_a_second_one_hurries(
    capsys: pytest.CaptureFixture[str],
) -> None:
    signals, hurried = StopSignals(), []
    listeners = SimpleNamespace(hurry=lambda: hurried.append(True))
    signals.note(signal.SIGTERM)

    with anyio.fail_after(60):
        await _until_stopped(signals, SimpleNamespace(running=[1, 2]), listeners)
    before = list(hurried)
    signals.note(signal.SIGINT)

    assert capsys.readouterr().err == (
        "flyball: stopping; waiting up to 10 s for 2 calls; Ctrl-C again ends it now\n"
    )
    assert (before, hurried) == ([], [True])
