"""`flyball` commands that tests start: processes of their own, each a clone of a loaded one.

Loading a sidecar takes two seconds of a processor, and the suites start hundreds.
"""

import atexit
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, TextIO

ROOT = Path(__file__).resolve().parent.parent
CRADLE = Path(__file__).parent / "cradle.py"
# Names it to processes of tests that start commands of their own.
CRADLE_VARIABLE = "TESTS_CRADLE"
BORN_SECONDS_MAX = 120
END_SECONDS_MAX = 30
TOLD_BYTES_MAX = 64
_OPENING = threading.Lock()


class Command:
    """A `flyball` command that was started, to be used as a `subprocess.Popen` is."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        stdout: IO[str] | None = None,
        stderr: IO[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start it; its output goes to a pipe, to be read as `stdout`, unless there is a file."""
        self.words = tuple(words)
        self.returncode: int | None = None
        self.stdout: TextIO | None = None
        reading, writing = os.pipe() if stdout is None else (None, stdout.fileno())
        self._report, report = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        surroundings = {"cwd": str(cwd), "env": dict(os.environ if env is None else env)}
        order = json.dumps({"words": self.words, **surroundings}).encode()
        with report, Path(os.devnull).open("rb") as nothing:
            error = sys.__stderr__ if stderr is None else stderr
            assert error is not None
            files = (nothing.fileno(), writing, error.fileno(), report.fileno())
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as orders:
                orders.connect(cradle())
                socket.send_fds(orders, [order], files)
        if reading is not None:
            os.close(writing)
            self.stdout = os.fdopen(reading, encoding="utf-8")
        pid = self._heard(BORN_SECONDS_MAX)
        assert pid is not None, f"no clone after {BORN_SECONDS_MAX} s"
        self.pid = pid

    def poll(self) -> int | None:
        """Return how it ended, None while it runs."""
        if self.returncode is None:
            self.returncode = self._heard(0)
            if self.returncode is not None:
                self._report.close()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return how it ended.

        Raises:
            subprocess.TimeoutExpired: it has not.
        """
        if self.returncode is None:
            select.select([self._report], [], [], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired(self.words, timeout or 0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def _heard(self, timeout: float) -> int | None:
        """Return the next number that is told of it, None if there is none in time."""
        if not select.select([self._report], [], [], timeout)[0]:
            return None
        told = self._report.recv(TOLD_BYTES_MAX)
        assert told, "the process that commands are clones of is gone"
        return int(told)


def run_command(
    words: Sequence[str], *, cwd: Path, timeout: float, env: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Return how a command ended and what it said, as `subprocess.run` does.

    Raises:
        subprocess.TimeoutExpired: it did not end in time, and was killed.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as error:
        command = Command(words, cwd=cwd, stdout=out, stderr=error, env=env)
        try:
            code = command.wait(timeout)
        finally:
            command.kill()
            command.wait(END_SECONDS_MAX)
        out.seek(0)
        error.seek(0)
        said = out.read(), error.read()
    return subprocess.CompletedProcess(list(command.words), code, *said)


def cradle() -> str:
    """Return where commands are ordered: of whoever started this process, else begun here."""
    with _OPENING:
        return os.environ.get(CRADLE_VARIABLE) or _begun()


@cache
def _begun() -> str:
    folder = tempfile.mkdtemp(prefix="cradle-")
    place = f"{folder}/orders"
    lifeline, ours = os.pipe()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as orders:
        orders.bind(place)
        orders.listen()
        files = (orders.fileno(), lifeline)
        process = subprocess.Popen(
            [sys.executable, str(CRADLE), *map(str, files)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=files,
            # A process with one thread alone can be cloned.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
    os.close(lifeline)

    def end() -> None:
        os.close(ours)
        process.wait(END_SECONDS_MAX)
        shutil.rmtree(folder)

    atexit.register(end)
    return place
