"""Running Python as a user without rights, who may not reach the interpreter of this checkout."""

import os
import sys
from pathlib import Path

from tests.ebpf.commands import ROOT

NOBODY = 65534


def environment() -> dict[str, str]:
    """Return an environment in which another Python finds the packages of this one."""
    site = next((path for path in sys.path if path.endswith("site-packages")), "")
    return {"PATH": "/usr/bin:/bin", "PYTHONPATH": site, "PYTHONDONTWRITEBYTECODE": "1"}


def interpreter_for(user: int, *modules: str) -> str | None:
    """Return a Python that another user can run and that finds what the tests need."""
    needed = ", ".join(("sys", "anyio", "psutil", *modules))
    check = f"import {needed}; sys.exit(sys.version_info < (3, 11))"
    for path in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        if Path(path).exists() and run_as(user, [path, "-c", check]) == 0:
            return path
    return None


def run_as(user: int, argv: list[str]) -> int:
    """Return the exit code of a command that another user runs in the repository."""
    env = environment()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            os.chdir(ROOT)
            os.execve(argv[0], argv, env)
        finally:
            os._exit(126)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
