"""One command inside another kernel: the machine's files read-only below, its end brought back."""

import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.kernel.lab.packages import LabError

# Where the guest finds the folder that it shares with the host.
SHARED = Path("/run/lab")
# Says in a guest which one it is.
GUEST_VARIABLE = "FLYBALL_LAB_GUEST"
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH", "VIRTUAL_ENV", "CI")
FAILED_BOOT_LINES = 30

# The second half of every guest's start, in its root as the command will see it. Every group but
# the root's own may then have controllers, so whatever runs is put into a group.
ENTER = """\
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t bpf bpf /sys/fs/bpf 2>/dev/null
mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null
mount -t debugfs debugfs /sys/kernel/debug 2>/dev/null
mount -t securityfs securityfs /sys/kernel/security 2>/dev/null
for one in $(cat /sys/fs/cgroup/cgroup.controllers); do
  echo "+$one" > /sys/fs/cgroup/cgroup.subtree_control
done
mkdir /sys/fs/cgroup/host.slice
echo $$ > /sys/fs/cgroup/host.slice/cgroup.procs
ip link set lo up 2>/dev/null || {busybox} ifconfig lo 127.0.0.1 up
cd {cwd}
env -i {variables} {argv} > {shared}/output 2>&1 < /dev/null
echo $? > {shared}/exit-code
sync
{busybox} poweroff -f
"""


@dataclass(frozen=True, kw_only=True)
class Errand:
    """What is to be run in a guest."""

    argv: tuple[str, ...]
    cwd: Path
    seconds_max: int


@dataclass(frozen=True, kw_only=True)
class Finished:
    """How it ended; the folder is gone after the `with` that yielded this."""

    exit_code: int
    output: str
    folder: Path


class Guest(Protocol):
    """A kernel that can be started."""

    @property
    def name(self) -> str:
        """What it is called in reports."""
        ...

    @property
    def busybox(self) -> Path:
        """The tools of a system's start, in one program."""
        ...

    def command(self, folder: Path) -> Sequence[str]:
        """Return the command that starts it with `folder` shared and `enter` run in it."""
        ...


@contextmanager
def finished(guest: Guest, errand: Errand) -> Iterator[Finished]:
    """Run `errand` in `guest` and yield how it ended, with all that it left in SHARED.

    Raises:
        LabError: the guest came to no end of its own.
    """
    with tempfile.TemporaryDirectory(prefix="flyball-lab-") as scratch:
        shared = Path(scratch, "shared")
        shared.mkdir()
        busybox = Path(shutil.copy2(guest.busybox, shared))
        (shared / "enter").write_text(_enter(guest.name, errand, SHARED / busybox.name))
        console = _boot(guest.command(Path(scratch)), Path(scratch), errand.seconds_max)
        output = shared / "output"
        said = output.read_text(errors="replace") if output.exists() else ""
        code = shared / "exit-code"
        if not code.exists() or not code.read_text().strip():
            raise LabError(f"{guest.name} came to no end:\n{said}\n{console}")
        yield Finished(exit_code=int(code.read_text()), output=said, folder=shared)


def _enter(name: str, errand: Errand, busybox: Path) -> str:
    passed_on = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
    variables = {**passed_on, GUEST_VARIABLE: name}
    return ENTER.format(
        busybox=busybox,
        cwd=shlex.quote(str(errand.cwd)),
        variables=_words(variables),
        argv=shlex.join(errand.argv),
        shared=SHARED,
    )


def _words(variables: Mapping[str, str]) -> str:
    return shlex.join([f"{key}={value}" for key, value in variables.items()])


def _boot(argv: Sequence[str], scratch: Path, seconds_max: int) -> str:
    """Run a guest to its end; return the last that its console showed."""
    console = scratch / "console"
    with console.open("wb") as output:
        # A group of its own: some guests are many processes of the host.
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=0,
            env={**os.environ, "TMPDIR": str(scratch)},
        )
        try:
            process.wait(timeout=seconds_max)
        except subprocess.TimeoutExpired:
            output.write(b"\nno end after its time\n")
        finally:
            _end_group(process)
    lines = console.read_text(errors="replace").splitlines()
    return "\n".join(lines[-FAILED_BOOT_LINES:])


def _end_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, 9)
    process.wait()
