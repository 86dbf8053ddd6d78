"""The process that stands for a recorded call: it takes memory, burns and waits, step by step.

It is run as a script by a bare interpreter, so it imports little. Its arguments are numbers:
the memory in bytes, the processor time and the waiting in microseconds, the number of steps;
then the bytes above which it slows itself down with the file that tells what is used (0 and -
for never); then the files of the control groups that it enters first. With no steps it takes
its memory, says so, and holds it until its standard input ends.
"""

import mmap
import os
import sys
import time

_PAGE = 4096
_US_PER_S = 1_000_000
# What the kernel does to who is above `memory.high`: after each batch of pages a sleep that
# grows with the square of the overage, up to two seconds.
_BATCH_BYTES = 64 * _PAGE
_PENALTY_S_MAX = 2.0
_PENALTY_OF_SQUARE = 64.0
_PENALTY_S_MIN = 0.01


def main(arguments: list[str]) -> None:
    """Be the call that the arguments describe; print how long each taking of memory took."""
    memory, cpu_us, wait_us, steps, high = map(int, arguments[:5])
    usage, groups = arguments[5], arguments[6:]
    for path in groups:
        _enter(path)
    held: list[mmap.mmap] = []
    if not steps:
        _take(held, memory, high=0, usage="-")
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.read()
        return
    growing = max(1, steps // 2)
    took: list[int] = []
    for step in range(steps):
        if step < growing:
            began = time.perf_counter_ns()
            _take(held, memory // growing, high=high, usage=usage)
            took.append((time.perf_counter_ns() - began) // 1000)
        _burn(cpu_us // steps)
        time.sleep(wait_us / steps / _US_PER_S)
    sys.stdout.write(" ".join(map(str, took)))


def _enter(path: str) -> None:
    control = os.open(path, os.O_WRONLY)
    os.write(control, b"0")
    os.close(control)


def _take(held: list[mmap.mmap], size: int, *, high: int, usage: str) -> None:
    """Take so much memory and touch every page of it."""
    size -= size % _PAGE
    if not size:
        return
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    held.append(block)
    batch = _BATCH_BYTES if high else size
    for start in range(0, size, batch):
        end = min(size, start + batch)
        block[start:end:_PAGE] = b"\1" * ((end - start) // _PAGE)
        if high:
            _be_slowed(high, usage)


def _be_slowed(high: int, usage: str) -> None:
    with open(usage, encoding="ascii") as file:  # noqa: PTH123 - pathlib costs more than the call
        over = (int(file.read()) - high) / high
    if over > 0:
        penalty = min(_PENALTY_S_MAX, _PENALTY_OF_SQUARE * over * over)
        if penalty >= _PENALTY_S_MIN:
            time.sleep(penalty)


def _burn(cpu_us: int) -> None:
    end = time.thread_time_ns() + cpu_us * 1000
    while time.thread_time_ns() < end:
        pass


if __name__ == "__main__":
    main(sys.argv[1:])
