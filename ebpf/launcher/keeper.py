"""The process above a command or a server, to which all its orphans fall.

Without control groups this is what holds a tree together: a process that detaches itself is
handed to the nearest keeper rather than to init, so it can still be found. It outlives the
sidecar by as long as it takes to kill what is beneath it.
"""

import marshal
import os
import resource

from ebpf.launcher import linux
from ebpf.launcher.parent import Parent

TYPE_CHECKING = False  # `typing` costs every launch milliseconds
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable

    from ebpf.launcher.spec import LaunchSpec
else:
    # What `signal` adds to it are enumerations, which would cost every launch milliseconds.
    import _signal as signal

_SECTOR_BYTES = 512
_KILL_WAIT_MS_FIRST = 2
_KILL_WAIT_MS_MAX = 500
_HEARD = (signal.SIGCHLD, signal.SIGTERM)


def keep(spec: "LaunchSpec", become: "Callable[[int], None]") -> None:
    """Start what `become` becomes, stay above it until nothing of it is left; return never."""
    if spec["governed"]:
        os.setsid()
    linux.adopt_orphans()
    parent = Parent(spec["parent_pid"])
    keeper_pid = os.getpid()
    # From the fork on a request to end is passed on: until the keeper listens, it waits.
    held = signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    command_pid = os.fork()
    if command_pid == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        if not spec["governed"]:
            os.setsid()  # what it sends to its own group must not reach its keeper
        become(keeper_pid)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # the sidecar may have closed the pipe
    keeper = _Keeper(spec, parent, command_pid)
    signal.pthread_sigmask(signal.SIG_SETMASK, held)
    keeper.stay()


class _Keeper:
    """Waits for a tree, and cuts it down when its time has come."""

    def __init__(self, spec: "LaunchSpec", parent: Parent, command_pid: int) -> None:
        """Take what was started just now."""
        self._parent = parent
        self._command_pid = command_pid
        self._status_fd = spec["status_fd"]
        self._is_server = not spec["governed"]
        self._status: int | None = None
        self._signals = _heard(*_HEARD)

    def stay(self) -> None:
        """Return never: end as the command did, once it and all its descendants have."""
        for standard in (0, 1, 2):
            os.close(standard)  # the pipes must end when the command's tree has
        wait_ms = _KILL_WAIT_MS_FIRST
        while self._reap():
            if self._is_over:
                _kill_once(os.getpid())
                self._parent.wait(self._signals, most_ms=wait_ms)
                wait_ms = min(wait_ms * 2, _KILL_WAIT_MS_MAX)
            else:
                self._parent.wait(self._signals)
            self._pass_on()
        if self._is_server:
            _end_like(self._status or 0)
        self._report_usage()
        os._exit(0)

    @property
    def _is_over(self) -> bool:
        """Tell whether nobody wants the tree any more.

        What a command leaves behind is its executor's to end, who reads the figures first.
        """
        return self._parent.is_gone or (self._is_server and self._status is not None)

    def _reap(self) -> bool:
        """Wait for whatever has ended; tell whether anything is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._command_pid:
                self._status = status
                self._report(("ended", status))

    def _pass_on(self) -> None:
        """Give a polite request to end to those whom it is meant for."""
        try:
            heard = os.read(self._signals, 4096)
        except BlockingIOError:
            return
        if signal.SIGTERM in heard and self._status is None:
            try:
                os.killpg(self._command_pid, signal.SIGTERM)
            except OSError:
                return  # it has ended, or has not made its session yet

    def _report_usage(self) -> None:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        used_us = int((usage.ru_utime + usage.ru_stime) * 1_000_000)
        # The kernel counts in sectors what its processes had read from storage and written.
        io_bytes = (usage.ru_inblock + usage.ru_oublock) * _SECTOR_BYTES
        self._report(("used", used_us, io_bytes))

    def _report(self, words: tuple[str | int, ...]) -> None:
        if self._status_fd is None:
            return
        try:
            os.write(self._status_fd, marshal.dumps(words))
        except OSError:
            return  # nobody is left to be told


def _heard(*signals: int) -> int:
    """Return a descriptor from which the numbers of these signals can be read."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in signals:
        signal.signal(number, _nothing)
    return reading


def _nothing(*_: object) -> None:
    """Do nothing: its number was written to the descriptor."""


def _kill_once(root: int) -> None:
    """Kill all that is beneath a process now.

    They are stopped before they are killed, so that a tree which keeps forking stands still
    while it is cut down.
    """
    found = _descendants(root)
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in found:
            try:
                os.kill(pid, number)
            except OSError:
                continue


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib costs every launch
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                    stat = file.read()
            except OSError:
                continue  # it ended since it was listed
            # The name before it may hold anything, so what follows is found from the end.
            parent_pid = int(stat[stat.rindex(b")") + 2 :].split()[1])
            children.setdefault(parent_pid, []).append(int(name))
    found = children.get(root, [])
    for pid in found:  # grows on the way
        found.extend(children.get(pid, ()))
    return found


def _end_like(status: int) -> None:
    """End as the server did, so that whoever waits for the keeper sees why."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if number in (signal.SIGCHLD, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)  # the others are as they were
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 1)
