"""Kills a backup, or a restore, at each of its steps in turn, and looks at what is left.

A step is whatever touches the file system or copies some of a database: what Python tells its
audit hooks of, and what the copying tells of its progress. So no step is left out that a power
cut could hit, and none depends on how fast a machine is.
"""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from memory_store.backups.file_store import examine
from memory_store.backups.restoring import check_backup, restore_backup
from memory_store.backups.taking import take_backup
from memory_store.store import DATABASE_NAME
from tests.memory_store.backups.filled import Held, filled, held_in, source_of

STEPS = frozenset({"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "sqlite3.connect"})


@dataclass
class Steps:
    """Counts, and kills this process at one of them."""

    kills_at: int
    seen: int = 0

    def hook(self, event: str, _arguments: object) -> None:
        if event in STEPS:
            self.told(0)

    def told(self, _bytes: int) -> None:
        self.seen += 1
        if self.seen == self.kills_at:
            os.kill(os.getpid(), signal.SIGKILL)


def is_killed_at(step: int, work: Callable[[Steps], object]) -> bool:
    """Tell whether `work`, in a process of its own, was killed there and not done before."""
    pid = os.fork()
    if pid == 0:
        steps = Steps(kills_at=step)
        sys.addaudithook(steps.hook)
        work(steps)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.waitstatus_to_exitcode(status) == 0, "it failed, and was not killed"
    return False


@dataclass(kw_only=True)
class Drill:
    """One store that is backed up, and one that another is restored over."""

    folder: Path
    first: int
    every: int
    url: str | None = None
    """An empty database, for a backup of a server's store."""
    kills: int = field(default=0, init=False)

    def run(self, kind: str, *, backed_up: str | None = None) -> None:
        """Run one of the drills; `backed_up` is where a server's store is that is filled first."""
        if kind == "server":
            assert backed_up is not None
            self.of_server_restores(backed_up)
        else:
            self.url = None
            {"backups": self.of_backups, "restores": self.of_restores}[kind]()

    def of_backups(self) -> None:
        """Kill backups; the store is untouched, and what has the name of a backup is one."""
        state, target = self.folder / "state", self.folder / "backup"
        held = anyio.run(filled, state)
        for step in range(self.first, sys.maxsize, self.every):
            killed = is_killed_at(step, lambda steps: self._take(state, target, steps))
            examine(state / DATABASE_NAME)
            if target.exists():
                check_backup(target)
                shutil.rmtree(target)
            if not killed:
                break
            self.kills += 1
            self._take(state, target, Steps(kills_at=0))
            check_backup(target)
            shutil.rmtree(target)
        assert anyio.run(held_in, state) == held

    def of_restores(self) -> None:
        """Kill restores; a start finds one store or the other, and another restore ends it."""
        new = anyio.run(filled, self.folder / "state")
        backup, place = self.folder / "backup", self.folder / "place"
        self._take(self.folder / "state", backup, Steps(kills_at=0))
        model = self.folder / "old"
        old = anyio.run(lambda: filled(model, name="Old"))
        for step in range(self.first, sys.maxsize, self.every):
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(model, place)
            killed = is_killed_at(step, lambda steps: self._restore(backup, place, steps))
            if step % 2:
                found = anyio.run(held_in, place)
                assert found in (old, new)
                self._find_both(place, found, old=old, new=new)
            else:
                self._restore(backup, place, Steps(kills_at=0))
                assert anyio.run(held_in, place) == new
            if not killed:
                break
            self.kills += 1

    def of_server_restores(self, backed_up: str) -> None:
        """Kill restores of a server's store; its database is empty or whole."""
        assert self.url is not None
        backup, place = self.folder / "backup", self.folder / "place"
        held = anyio.run(filled, self.folder / "state", backed_up)
        take_backup(
            source_of(self.folder / "state", backed_up), backup, made_by="a drill", now_ms=1
        )
        for step in range(self.first, sys.maxsize, self.every):
            killed = is_killed_at(step, lambda steps: self._restore(backup, place, steps))
            if not killed:
                break
            self.kills += 1
        assert anyio.run(held_in, place, self.url) == held

    def _take(self, state: Path, target: Path, steps: Steps) -> None:
        take_backup(source_of(state), target, made_by="a drill", now_ms=1, told=steps.told)

    def _restore(self, backup: Path, place: Path, steps: Steps) -> None:
        # One that was killed after its database was whole is ended by another that may replace it.
        may_replace = self.url is None or self.kills > 0
        restore_backup(backup, place, url=self.url, now_ms=9, replaces=may_replace, told=steps.told)

    def _find_both(self, place: Path, found: Held, *, old: Held, new: Held) -> None:
        """Keys go with their store, and what was replaced is there, whole."""
        assert (place / "gate.key").read_text() == found.name
        if found == new:
            assert anyio.run(held_in, place / "replaced-9") == old


def main() -> None:
    """Run the drill that is named; say how often it killed."""
    kind, folder, first, every, *urls = sys.argv[1:]
    drill = Drill(folder=Path(folder), first=int(first), every=int(every), url=(urls or [None])[0])
    drill.run(kind, backed_up=urls[1] if urls else None)
    sys.stdout.write(json.dumps({"kills": drill.kills}) + "\n")


if __name__ == "__main__":
    main()
