"""The program that outlives its sidecar and kills, at once, all that it had started.

One small process beside each sidecar that works with control groups. It waits for the
sidecar's end, of whatever it dies, and ends every domain with one write to `cgroup.kill`,
on version 1 with a signal to each process of a group that was stopped.
Nothing that a signal or a shortage of memory does to the sidecar reaches it.
"""

import os
import signal
import sys
import time

from ebpf.launcher.parent import Parent

READY = b"."

_ROUNDS_MAX = 6_000  # ten minutes: only a process that the kernel cannot kill takes longer
_WAIT_SECONDS_FIRST = 0.001
_WAIT_SECONDS_MAX = 0.1
_STOP_SECONDS = 0.01  # as long as it takes a group to be stopped, as a rule; it is tried again


def main() -> None:
    """Watch over the groups that the arguments name, the one that can be killed last."""
    parent_pid, *groups = sys.argv[2:]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    _be_spared()
    parent = Parent(int(parent_pid))
    _say_ready()
    while not parent.is_gone and not _is_dismissed():
        parent.wait(0)
    _end(groups)


def _say_ready() -> None:
    try:
        os.write(1, READY)
    except OSError:
        return  # the sidecar is gone already, and there is work to do
    finally:
        os.close(1)


def _be_spared() -> None:
    """Ask not to be what the kernel kills when memory is short; only root is heard."""
    try:
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as file:  # noqa: PTH123
            file.write(b"-1000")
    except OSError:
        return  # small as it is, it is far down the list


def _is_dismissed() -> bool:
    """Tell whether the sidecar has closed its end: it ends in order and has tidied up."""
    os.set_blocking(0, False)
    try:
        return os.read(0, 1) == b""
    except BlockingIOError:
        return False


def _end(groups: list[str]) -> None:
    """Kill what is in the groups and beneath, until they can be removed."""
    wait = _WAIT_SECONDS_FIRST
    for _ in range(_ROUNDS_MAX):
        _kill(groups[-1])
        # All of them each time: a launcher may still be about to enter the first.
        if not sum(not _is_removed(group) for group in groups):
            return
        time.sleep(wait)
        wait = min(wait * 2, _WAIT_SECONDS_MAX)


def _kill(group: str) -> None:
    if _is_written(f"{group}/cgroup.kill", b"1"):
        return
    # Version 1: what is stopped cannot fork, so its list of processes is complete.
    if _is_written(f"{group}/freezer.state", b"FROZEN"):
        time.sleep(_STOP_SECONDS)
        for pid in _members(group):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                continue
        _is_written(f"{group}/freezer.state", b"THAWED")


def _is_written(path: str, value: bytes) -> bool:
    try:
        with open(path, "wb", buffering=0) as file:  # noqa: PTH123
            file.write(value)
    except OSError:
        return False  # there is none, or none any more
    return True


def _members(group: str) -> "list[int]":
    """Return the processes in a group and beneath it."""
    try:
        with open(f"{group}/cgroup.procs", "rb") as file:  # noqa: PTH123
            found = [int(pid) for pid in file.read().split()]
        for entry in os.scandir(group):
            if entry.is_dir(follow_symlinks=False):
                found += _members(entry.path)
    except OSError:
        return []  # removed while we looked
    return found


def _is_removed(group: str) -> bool:
    """Remove a group with those beneath it as far as they are empty; tell whether it is gone."""
    try:
        for entry in os.scandir(group):
            if entry.is_dir(follow_symlinks=False):
                _is_removed(entry.path)
        os.rmdir(group)  # noqa: PTH106 - pathlib costs memory for as long as the sidecar lives
    except FileNotFoundError:
        return True
    except OSError:
        return False  # busy
    return True
