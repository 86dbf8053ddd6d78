"""Looking at process trees from outside, where no kernel facility keeps them together."""

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeSample:
    """What one tree held at one moment, its keeper not counted."""

    processes: int
    memory_bytes: int
    cpu_ms: int


def _cpu_seconds(process: psutil.Process, *, own: bool) -> float:
    """Return the CPU time of a process and of the children that it has waited for."""
    times = process.cpu_times()
    # Linux and macOS have the children's part; psutil's type does not promise it everywhere.
    waited = float(getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0))
    return waited + (times.user + times.system if own else 0.0)


def descendants(pid: int) -> tuple[psutil.Process, ...]:
    """Return every living descendant of a process; none when it is gone itself."""
    try:
        return tuple(psutil.Process(pid).children(recursive=True))
    except psutil.NoSuchProcess:
        return ()


def sample_tree(root_pid: int, *, root_is_keeper: bool) -> TreeSample:
    """Add up what a tree holds now.

    CPU time of the dead is found where the kernel puts it: with the parent that waited.
    """
    processes = 0
    memory_bytes = 0
    cpu_seconds = 0.0
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(root_pid)
        cpu_seconds += _cpu_seconds(root, own=not root_is_keeper)
        if not root_is_keeper:
            memory_bytes += root.memory_info().rss
            processes += 1
    for process in descendants(root_pid):
        # A process may end, or change hands, between being listed and being looked at.
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            memory_bytes += process.memory_info().rss
            cpu_seconds += _cpu_seconds(process, own=True)
            processes += 1
    return TreeSample(
        processes=processes, memory_bytes=memory_bytes, cpu_ms=round(cpu_seconds * 1000)
    )


# Of the last: a parent in `vfork` waits so for a child that was stopped before its `exec`, and
# reaches no stop of its own until that child goes on. With the stop pending it runs nothing.
_STANDING = frozenset(
    {
        psutil.STATUS_STOPPED,
        psutil.STATUS_TRACING_STOP,
        psutil.STATUS_ZOMBIE,
        psutil.STATUS_DISK_SLEEP,
    }
)


def stop_process(process: psutil.Process) -> bool:
    """Stop a process; tell whether it was running."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        status = process.status()
        if status not in {psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE}:
            process.suspend()
        return status not in _STANDING
    return False


def continue_process(process: psutil.Process) -> None:
    """Let a process that was stopped go on."""
    with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
        process.resume()


def kill_descendants(pid: int) -> int:
    """Kill every living descendant; return how many there were.

    They are stopped before they are killed, so that a tree which keeps forking stands
    still while it is cut down.
    """
    found = descendants(pid)
    for process in found:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            process.suspend()
    return sum(_killed(process) for process in found)


def kill_process(pid: int) -> bool:
    """Kill one process; tell whether it was there."""
    try:
        return _killed(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False


def _killed(process: psutil.Process) -> bool:
    try:
        process.kill()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
    return True


def marked(
    name: str, prefix: str, *, not_below: Collection[int] = ()
) -> Iterator[tuple[psutil.Process, str]]:
    """Yield each process whose environment has `name` starting with `prefix`, and the rest.

    To read the environment of a process is to wait until it does not fork, which among hundreds
    that do takes for ever. Trees that are another's to end are therefore left out by their roots.
    """
    elsewhere = _below(not_below)
    for process in psutil.process_iter():
        if process.pid in elsewhere:
            continue
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, OSError):
            value = process.environ().get(name, "")
            if value.startswith(prefix) and process.status() != psutil.STATUS_ZOMBIE:
                yield process, value.removeprefix(prefix)


def _below(roots: Collection[int]) -> set[int]:
    """Return every process of these trees."""
    if not roots:
        return set()
    parents: dict[int, int] = {}
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess):
            parents[process.pid] = process.ppid()
    found = set(roots)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def kill_marked(name: str, value: str, *, not_below: Collection[int] = ()) -> int:
    """Kill each process whose environment holds exactly this; return how many there were."""
    found = [one for one, rest in marked(name, value, not_below=not_below) if not rest]
    return sum(map(_killed, found))


def tasks_of(uid: int) -> int:
    """Return how many threads the processes of one user have."""
    total = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.uids().real == uid:
                total += process.num_threads()
    return total


def is_alive(pid: int) -> bool:
    """Tell whether a process exists and is not merely waiting to be reaped."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
