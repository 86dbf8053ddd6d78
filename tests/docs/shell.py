"""A shell that stays, and how what it prints is held against what a page shows."""

import os
import re
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

SECONDS_MAX = 90
_END = "__the_command_ended__"
_ANYTHING = "…"
_HERE = re.compile(r"<<'?(?P<word>\w+)'?")


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command of a console snippet, and the lines that stand below it."""

    text: str
    shown: tuple[str, ...]


def commands_of(text: str) -> list[Command]:
    """Part a console snippet; a command goes on until its quotations and here documents end."""
    commands: list[Command] = []
    said: list[str] = []
    shown: list[str] = []
    for line in text.splitlines():
        if said and not _is_whole("\n".join(said)):
            said.append(line)
        elif line.startswith("$ "):
            if said:
                commands.append(Command(text="\n".join(said), shown=tuple(shown)))
            said, shown = [line.removeprefix("$ ")], []
        else:
            shown.append(line)
    commands.append(Command(text="\n".join(said), shown=tuple(shown)))
    return commands


def _is_whole(command: str) -> bool:
    here = _HERE.search(command)
    if here is not None:
        return command.splitlines()[-1] == here["word"]
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return not command.endswith("\\")


def differs(printed: str, shown: Sequence[str]) -> bool:
    """Tell whether what was printed is not what is shown; … stands for anything."""
    if not shown:
        return False
    lines = [
        r"(?:[^\n]*\n)*?"
        if line.strip() == _ANYTHING
        else r"[^\n]*?".join(map(re.escape, line.rstrip().split(_ANYTHING))) + r"[ ]*\n"
        for line in shown
    ]
    text = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch("".join(lines), text) is None


class Shell:
    """Bash in a folder, which runs one command after the other and keeps its variables."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=folder,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._folder = folder
        self._services: list[tuple[subprocess.Popen[bytes], Path]] = []
        self._env = env

    def run(self, command: str) -> tuple[int, str]:
        """Return the status of a command, and what it printed."""
        assert self._bash.stdin is not None
        # Without a file of its own a command would read the commands that come after it.
        ending = f"\n}} </dev/null\nprintf '\\n{_END} %s\\n' $?\n"
        self._bash.stdin.write(f"{{ {command}{ending}".encode())
        self._bash.stdin.flush()
        printed, status = self._until_its_end(command)
        return status, printed

    def _until_its_end(self, command: str) -> tuple[str, int]:
        assert self._bash.stdout is not None
        held = b""
        ends = time.monotonic() + SECONDS_MAX
        while (found := re.search(rb"\n" + _END.encode() + rb" (\d+)\n", held)) is None:
            left = ends - time.monotonic()
            ready, _, _ = select.select([self._bash.stdout], [], [], max(0.0, left))
            read = os.read(self._bash.stdout.fileno(), 65_536) if ready else b""
            assert read, f"it did not end: {command}\n{held.decode(errors='replace')}"
            held += read
        return held[: found.start()].decode(), int(found[1])

    def serve(self, command: str, *, until: str) -> str:
        """Start what serves until the shell is closed; return what it printed by then."""
        output = self._folder / f"service-{len(self._services)}.out"
        with output.open("wb") as printed:
            service = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self._folder,
                env=dict(self._env),
                stdout=printed,
                stderr=subprocess.STDOUT,
            )
        self._services.append((service, output))
        ends = time.monotonic() + SECONDS_MAX
        while until not in (text := output.read_text(encoding="utf-8")) or text[-1] != "\n":
            assert service.poll() is None, f"it ended: {command}\n{text}"
            assert time.monotonic() < ends, f"it is not ready: {command}\n{text}"
            time.sleep(0.02)
        return text

    def close(self) -> None:
        """End everything that was started here."""
        for service, _ in self._services:
            service.terminate()
        for service, _ in self._services:
            service.wait(SECONDS_MAX)
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.close()
        try:
            self._bash.wait(SECONDS_MAX)
        except subprocess.TimeoutExpired:
            os.killpg(self._bash.pid, signal.SIGKILL)
            self._bash.wait()
        self._bash.stdout.close()
