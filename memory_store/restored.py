"""What a restore leaves in a state directory, and how it comes to stand where it is used.

A restore makes everything ready in a folder of its own and gives that the name `READY`: from
then on it has happened. What is left is to rename: what stood there before into a folder beside
it, then what is new into its place. Whoever next has the directory to itself finishes what a
crash interrupted, so that nobody ever works on half of one state and half of another.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

READY = "restored"
PLAN = "plan.json"


def write_plan(
    folder: Path, *, backup_id: str, brings: Sequence[str], clears: Sequence[str], aside: str
) -> None:
    """Say in `folder` what it brings, which names make room for it, and where to they go."""
    plan = {"backup_id": backup_id, "brings": [*brings], "clears": [*clears], "aside": aside}
    with (folder / PLAN).open("w", encoding="utf-8") as file:
        file.write(json.dumps(plan))
        file.flush()
        os.fsync(file.fileno())


def finish_restore(state_dir: Path) -> str | None:
    """Return which backup was put in place, None where none was waiting for that.

    Whoever calls has the state directory to itself. Every step may be the last: what was done
    is seen in where things are, and is not done again.
    """
    ready = state_dir / READY
    if not ready.is_dir():
        return None
    plan_file = ready / PLAN
    backup_id = None
    if plan_file.exists():
        plan = json.loads(plan_file.read_text(encoding="utf-8"))
        backup_id = str(plan["backup_id"])
        for name in plan["clears"]:
            # What is brought and is no longer ready has arrived already.
            if name not in plan["brings"] or (ready / name).exists():
                _set_aside(state_dir, name, plan["aside"])
        _sync(state_dir)
        for name in plan["brings"]:
            if (ready / name).exists():
                (ready / name).replace(state_dir / name)
        _sync(state_dir)
        plan_file.unlink()
    ready.rmdir()
    return backup_id


def _set_aside(state_dir: Path, name: str, aside: str) -> None:
    if (state_dir / name).exists():
        folder = state_dir / aside
        folder.mkdir(mode=0o700, exist_ok=True)
        (state_dir / name).replace(folder / name)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
