"""The spawner: the small process of which every command begins as a clone.

Starting a process from the sidecar itself would mean to copy the page tables of a big one, or
to boot an interpreter each time. This one is small, has one thread, has imported what a launch
needs, and has given up already what every command must do without.

It hears from nobody but the sidecar, on the socket that it was born with. Its clones are the
sidecar's children, not its own: who kills it ends no command, and an order that was not carried
out can be given to its successor.
"""

import gc
import marshal
import os
import sys

from ebpf.launcher import keeper, linux, start
from ebpf.launcher.rulesets import Rulesets

TYPE_CHECKING = False  # `typing` costs every start milliseconds
if TYPE_CHECKING:
    import signal
    import socket

    from ebpf.launcher.spec import LaunchSpec
else:
    # What `signal` and `socket` add to them costs a megabyte for as long as the sidecar lives.
    import _signal as signal
    import _socket as socket

ROOT_WORD = "root"
BEGAN = "began"
# An order is the size of the spec in as many bytes, and these files: status, spec, standard
# input, output and error.
INT_BYTES = 4
FILES = 5
CLAIMED = 1  # where a clone leaves the spec's offset, for the sidecar to know that there was one

_NOT_EXECUTABLE = 126


def main() -> None:
    """Serve the sidecar that the arguments name, until it is gone."""
    *_, parent_pid, whose = sys.argv
    os.setsid()
    os.chdir("/")
    linux.die_with_parent(int(parent_pid))
    orders = _socket_of_its_own()
    score = start.offer_itself()
    start.give_up_for_all(is_root=whose == ROOT_WORD)
    _heed_signals()
    # A collection would write to all that the clones share.
    gc.disable()
    gc.freeze()
    Spawner(orders, score).serve()


def _heed_signals() -> None:
    """Block and ignore nothing that the sidecar, or who started it, blocked and ignored."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals():
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)


def _socket_of_its_own() -> "socket.socket":
    """Return the socket that was standard input; nothing of ours is where a command's files go."""
    orders = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    os.close(nothing)
    return orders


class Spawner:
    """Clones itself as often as it is told to."""

    def __init__(self, orders: "socket.socket", score_before: bytes) -> None:
        """Take the socket on which orders come, and how soon the kernel would kill the sidecar."""
        self._orders = orders
        self._score_before = score_before
        self._rulesets = Rulesets()

    def serve(self) -> None:
        """Return when nobody is left to give orders."""
        while True:
            size, files = self._received()
            if not files:
                return
            try:
                self._spawn(files, size)
            finally:
                for file in files:
                    os.close(file)

    def _received(self) -> tuple[int, list[int]]:
        room = socket.CMSG_SPACE(FILES * INT_BYTES)
        size, parts, _, _ = self._orders.recvmsg(INT_BYTES, room, socket.MSG_CMSG_CLOEXEC)
        files = [
            int.from_bytes(given[at : at + INT_BYTES], sys.byteorder)
            for level, kind, given in parts
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS)
            for at in range(0, len(given), INT_BYTES)
        ]
        return int.from_bytes(size, sys.byteorder), files

    def _spawn(self, files: list[int], size: int) -> None:
        """Make one clone and say which it is, or why there is none."""
        status, source, *_ = files
        # Read here, not in the clone, where each page that this touches would be copied.
        words = _read(source, size)
        spec: LaunchSpec = marshal.loads(words)  # noqa: S302 - the sidecar's own
        spec["status_fd"] = status
        join_all = [*spec["join"], *spec["join_unless_born"]]
        step = start.STEP_PRIVILEGES
        try:
            carve = spec["carve"]
            ruleset = None if carve is None else self._rulesets.of(carve)
            step = start.STEP_DOMAIN
            pid, is_born_in = _cloned(spec["born_in"])
        except OSError as error:
            start.tell_failure(status, step, error)
            return
        if pid == 0:
            try:
                if not is_born_in:
                    spec["join"] = join_all
                self._become(spec, files, ruleset)
            finally:
                os._exit(_NOT_EXECUTABLE)
        os.write(status, marshal.dumps((BEGAN, pid)))

    def _become(self, spec: "LaunchSpec", files: list[int], ruleset: int | None) -> None:
        """Become the command, as a clone; return never unless something is wrong with us."""
        _, source, stdin, stdout, stderr = files
        os.lseek(source, CLAIMED, os.SEEK_SET)
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        if spec["keeper"]:
            # A program that is executed loses these by itself.
            for file in (source, stdin, stdout, stderr, self._orders.detach()):
                os.close(file)
            self._keep(spec, ruleset)
        start.launch(spec, parent_pid=spec["parent_pid"], ruleset=ruleset)

    def _keep(self, spec: "LaunchSpec", ruleset: int | None) -> None:
        """Stay above the command; only what is beneath may be killed early."""
        with open("/proc/self/oom_score_adj", "wb", buffering=0) as score:  # noqa: PTH123
            score.write(self._score_before)

        def become(keeper_pid: int) -> None:
            start.offer_itself()
            start.launch(spec, parent_pid=keeper_pid, ruleset=ruleset)

        keeper.keep(spec, become)


def _read(source: int, size: int) -> bytes:
    found = os.pread(source, size, 0)
    while len(found) < size:  # one call reads two gigabytes at most
        found += os.pread(source, size - len(found), len(found))
    return found


def _cloned(born_in: str | None) -> tuple[int, bool]:
    if born_in is None:
        return linux.clone_sibling(None)
    group = os.open(born_in, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return linux.clone_sibling(group)
    finally:
        os.close(group)
