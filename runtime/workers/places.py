"""Where the processes of one sidecar find each other, beneath its state directory."""

import re
from pathlib import Path

FOLDER = "workers"
_PLACE = re.compile(r"w([1-9]\d{0,2})")


def place_of(worker: int) -> str:
    """Return what names a worker in the ids that clients send back."""
    return f"w{worker}"


def worker_named(place: str) -> int | None:
    """Return the number of the worker of that name, None if it names none."""
    found = _PLACE.fullmatch(place)
    return None if found is None else int(found[1])


def keeper_socket(state_dir: Path) -> Path:
    """Return where the keeper answers the workers."""
    return state_dir / FOLDER / "keeper.sock"


def worker_socket(state_dir: Path, worker: int) -> Path:
    """Return where a worker takes what belongs to it from the others."""
    return state_dir / FOLDER / f"{place_of(worker)}.sock"


def worker_folder(state_dir: Path, worker: int) -> Path:
    """Return the worker's own state directory."""
    return state_dir / FOLDER / place_of(worker)


def made_folder(state_dir: Path) -> Path:
    """Return the folder of all of these, which is made if it is not there."""
    folder = state_dir / FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder
