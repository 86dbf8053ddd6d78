"""The manifest of a backup: what is in it, piece by piece, and where it was taken from."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Any

from memory_store.errors import BackupError

NAME = "manifest.json"
# Where the pieces are: those of a state directory, a server's tables, the configuration.
STATE, TABLES, CONFIG = "state", "tables", "config"
_FORMAT = 1


class Kind(StrEnum):
    """Which database was backed up."""

    SQLITE = "sqlite"
    POSTGRESQL = "postgresql"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One file of a backup; its path is within the backup's folder."""

    path: str
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What was copied of a store, as of one moment."""

    revision: str
    pieces: tuple[Piece, ...]
    damaged: tuple[str, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    sequences: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup holds: written last, so a folder without one is no backup."""

    backup_id: str
    kind: Kind
    revision: str
    made_at_ms: int
    made_by: str
    pieces: tuple[Piece, ...]
    rows: Mapping[str, int] = field(default_factory=dict)
    """How many rows each table of a server had."""
    sequences: Mapping[str, int] = field(default_factory=dict)
    """The last number that each table of a server has given, by its column."""
    damaged: tuple[str, ...] = ()
    """The contents that were missing or not what was stored when the backup was made."""

    @property
    def size_bytes(self) -> int:
        """Return how large all pieces are."""
        return sum(piece.size_bytes for piece in self.pieces)

    def under(self, place: str) -> tuple[Piece, ...]:
        """Return the pieces at `place`."""
        return tuple(one for one in self.pieces if one.path.startswith(f"{place}/"))


def text_of(manifest: Manifest) -> str:
    """Return the manifest as it is written, with a hash over itself."""
    said = {"format": _FORMAT, **asdict(manifest)}
    return json.dumps({"sha256": _hash(said), "manifest": said}, indent=1) + "\n"


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of the backup in `folder`.

    Raises:
        BackupError: there is none, or not one that can be relied on; it says what to do.
    """
    try:
        text = (folder / NAME).read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        message = (
            f"{folder} is no backup: it has no {NAME}, which is written last, so one that was "
            "interrupted has none; name the folder of a backup that `flyball backup` finished"
        )
        raise BackupError(message) from None
    except (OSError, UnicodeError) as error:
        message = f"{folder / NAME} cannot be read: {error}"
        raise BackupError(message) from error
    try:
        return _parsed(json.loads(text))
    except (ValueError, KeyError, TypeError) as error:
        message = f"{folder / NAME} is damaged or is not one of ours; use another backup"
        raise BackupError(message) from error


def _parsed(whole: dict[str, Any]) -> Manifest:
    said = dict(whole["manifest"])
    if whole["sha256"] != _hash(said):
        raise ValueError
    if said.pop("format") != _FORMAT:
        message = "the backup was made by a newer version of Flyball; restore it with that one"
        raise BackupError(message)
    pieces = tuple(Piece(**piece) for piece in said.pop("pieces"))
    for piece in pieces:
        _check_inside(piece.path)
    kind, damaged = Kind(said.pop("kind")), tuple(said.pop("damaged"))
    return Manifest(kind=kind, pieces=pieces, damaged=damaged, **said)


def _check_inside(path: str) -> None:
    """Refuse a path that would lead out of the folder it is put into, or is not in its one form."""
    pure = PurePosixPath(path)
    if (
        pure.as_posix() != path
        or pure.is_absolute()
        or ".." in pure.parts
        or len(pure.parts) < len((STATE, "name"))
    ):
        raise ValueError


def _hash(said: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()
