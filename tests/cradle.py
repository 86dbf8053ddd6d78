"""The process of which the `flyball` commands of tests begin as clones, with all loaded.

A clone is a process like any other, and goes through all that a command does from its words on.
What it is not good for: its command line is ours, and so are its user and its Python.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import socket
import sys
from typing import Any

from runtime.cli import main
from runtime.collector import loading

# What tests start most often, and what a sidecar loads only when it opens its store or ports.
MODULES = (
    "runtime.cli.command_line",
    "runtime.cli.up",
    "runtime.cli.run",
    "runtime.cli.stdio",
)
ORDER_BYTES_MAX = 200_000
WOKEN_BYTES_MAX = 512
# With each order: standard input, output and error, and where the clone's pid and end are told.
FILES = 4


def await_birth(orders: socket.socket, lifeline: int) -> list[str]:
    """Return, in each clone alone, the words of the command that it is; end with the lifeline."""
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    reports: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([orders, lifeline, woken], [], [])
        if lifeline in ready:
            sys.exit()
        if woken in ready:
            os.read(woken, WOKEN_BYTES_MAX)
            _report_ends(reports)
        if orders not in ready:
            continue
        with orders.accept()[0] as connection:
            order, files, _, _ = socket.recv_fds(connection, ORDER_BYTES_MAX, FILES)
        if not files:
            continue  # who ordered is gone
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            orders.close()
            for file in (lifeline, woken, wake, *reports.values()):
                os.close(file)
            return _become(json.loads(order), files)
        *standard, reports[pid] = files
        for file in standard:
            os.close(file)
        _tell(reports[pid], pid)


def _report_ends(reports: dict[int, int]) -> None:
    """Tell of each clone that ended how it did, as `subprocess` says it."""
    while reports:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        report = reports.pop(pid)
        _tell(report, os.waitstatus_to_exitcode(status))
        os.close(report)


def _tell(report: int, number: int) -> None:
    # Whoever ordered it may be gone.
    with contextlib.suppress(BrokenPipeError):
        os.write(report, str(number).encode())


def _become(order: dict[str, Any], files: list[int]) -> list[str]:
    """Take over the surroundings that an order names, and return its words."""
    *standard, report = files
    for number, file in enumerate(standard):
        os.dup2(file, number)
        os.close(file)
    os.close(report)
    # Those of before know whether they may seek, and are not asked again.
    sys.stdin = sys.__stdin__ = os.fdopen(0, closefd=False)
    sys.stdout = sys.__stdout__ = os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.__stderr__ = os.fdopen(2, "w", buffering=1, closefd=False)
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    # As `python -m` has it.
    sys.path[0] = order["cwd"]
    words: list[str] = order["words"]
    sys.argv = ["flyball", *words]
    return words


if __name__ == "__main__":
    with loading():
        for module in MODULES:
            importlib.import_module(module)
    listening, held = map(int, sys.argv[1:])
    main(await_birth(socket.socket(fileno=listening), held))
