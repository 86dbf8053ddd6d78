"""The files of a backup: copied with their hash, checked against it, on the disk when done."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_store.backups.manifest import Manifest, Piece
from memory_store.errors import BackupError

# How many bytes more are done; whoever shows progress adds them up.
Told = Callable[[int], None]

_CHUNK_BYTES = 1024 * 1024


def untold(_bytes: int) -> None:
    """Tell nobody."""


@contextmanager
def disk_errors() -> Iterator[None]:
    """Turn what the disk says into an error that names the file.

    Raises:
        BackupError: the disk refused.
    """
    try:
        yield
    except OSError as error:
        message = f"{error.filename or 'the disk'}: {error.strerror}"
        raise BackupError(message) from error


def copy_piece(source: Path, folder: Path, path: str, told: Told = untold) -> Piece:
    """Return what was copied from `source` to `path` within `folder`.

    Raises:
        OSError: it cannot be read or written.
    """
    with source.open("rb") as read:
        return write_piece(iter(lambda: read.read(_CHUNK_BYTES), b""), folder, path, told)


def write_piece(blocks: Iterable[bytes], folder: Path, path: str, told: Told = untold) -> Piece:
    """Return what was written to `path` within `folder`; nobody else may read it.

    Raises:
        OSError: it cannot be written.
    """
    hashed, size_bytes = hashlib.sha256(), 0
    target = folder / path
    _make_folders(target.parent, folder)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - Path cannot open a descriptor
        for block in blocks:
            file.write(block)
            hashed.update(block)
            size_bytes += len(block)
            told(len(block))
        file.flush()
        os.fsync(file.fileno())
    return Piece(path=path, size_bytes=size_bytes, sha256=hashed.hexdigest())


def _make_folders(wanted: Path, within: Path) -> None:
    """Make `wanted` with all that leads to it, each for its owner only."""
    if wanted != within:
        _make_folders(wanted.parent, within)
    wanted.mkdir(mode=0o700, exist_ok=True)


def hash_piece(folder: Path, path: str, told: Told = untold) -> Piece:
    """Return what is at `path` within `folder`.

    Raises:
        OSError: it cannot be read.
    """
    hashed, size_bytes = hashlib.sha256(), 0
    with (folder / path).open("rb") as file:
        while block := file.read(_CHUNK_BYTES):
            hashed.update(block)
            size_bytes += len(block)
            told(len(block))
    return Piece(path=path, size_bytes=size_bytes, sha256=hashed.hexdigest())


def check_pieces(folder: Path, manifest: Manifest, told: Told = untold) -> None:
    """Return if every piece in `folder` is what was written there.

    Raises:
        BackupError: one is missing or changed.
    """
    for piece in manifest.pieces:
        try:
            found = hash_piece(folder, piece.path, told)
        except FileNotFoundError:
            found = None
        if found != piece:
            how = "missing" if found is None else "not what was written"
            message = (
                f"the backup is damaged: {folder / piece.path} is {how}; use another backup "
                "(nothing was changed)"
            )
            raise BackupError(message)


def sync_folders(folder: Path) -> None:
    """Have the names in `folder`, and in all below it, on the disk."""
    for below in (folder, *(path for path in folder.rglob("*") if path.is_dir())):
        sync_folder(below)


def sync_folder(folder: Path) -> None:
    """Have the names in `folder` on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
