"""Taking a backup while sidecars are at work: a draft, which gets its name when it is whole."""

import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from memory_store.backups.file_store import Places, copy_files, examine
from memory_store.backups.manifest import (
    CONFIG,
    NAME,
    STATE,
    Copied,
    Kind,
    Manifest,
    Piece,
    text_of,
)
from memory_store.backups.pieces import (
    Told,
    copy_piece,
    disk_errors,
    sync_folder,
    sync_folders,
    untold,
    write_piece,
)
from memory_store.backups.server_store import copy_server
from memory_store.errors import BackupError
from memory_store.store import ARCHIVE_NAME, DATABASE_NAME, EXPERIENCES_NAME

PLACES = Places(database=DATABASE_NAME, archive=ARCHIVE_NAME, experiences=EXPERIENCES_NAME)
UNFINISHED = ".unfinished"
_LOCK = "flyball-backup.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What is backed up: a state directory, perhaps with a server, and what is kept beside."""

    state_dir: Path
    url: str | None = None
    keeps: Sequence[str] = ()
    """Files and folders of the state directory that are not the store's: keys, tokens."""
    config: Path | None = None


def take_backup(
    source: Source, target: Path, *, made_by: str, now_ms: int, told: Told = untold
) -> Manifest:
    """Return what the backup at `target` holds, once it is on the disk and proved sound.

    Raises:
        BackupError: there is nothing to back up, the target is taken, or a disk refused.
        StoreUnavailableError: the database cannot be read.
    """
    with disk_errors():
        if target.exists() or target.is_symlink():
            message = f"{target} is there already; name a folder that is not"
            raise BackupError(message)
        with _draft_of(target) as draft:
            manifest = _filled(source, draft, made_by=made_by, now_ms=now_ms, told=told)
            write_piece([text_of(manifest).encode()], draft, NAME)
            sync_folders(draft)
            draft.rename(target)
            sync_folder(target.parent)
            # Until here it says whose the draft is; nobody minds one that a crash leaves.
            (target / _LOCK).unlink()
    return manifest


def _filled(source: Source, draft: Path, *, made_by: str, now_ms: int, told: Told) -> Manifest:
    """Return the manifest of all that was copied into `draft`."""
    kept = _kept(source, draft)
    copied = (
        _files(source.state_dir, draft, told)
        if source.url is None
        else copy_server(source.url, draft, told)
    )
    return Manifest(
        backup_id=f"bak_{secrets.token_hex(8)}",
        kind=Kind.SQLITE if source.url is None else Kind.POSTGRESQL,
        revision=copied.revision,
        made_at_ms=now_ms,
        made_by=made_by,
        pieces=(*kept, *copied.pieces),
        rows=copied.rows,
        sequences=copied.sequences,
        damaged=copied.damaged,
    )


def _files(state_dir: Path, draft: Path, told: Told) -> Copied:
    copied = copy_files(state_dir, draft, PLACES, told)
    # A backup that could not be restored is found out now, while the store is still there.
    examine(draft / STATE / PLACES.database)
    return copied


def _kept(source: Source, draft: Path) -> tuple[Piece, ...]:
    """Return what was copied of that which is not the store's."""
    found = []
    for name in source.keeps:
        place = source.state_dir / name
        files = sorted(place.rglob("*")) if place.is_dir() else [place]
        found += [
            copy_piece(file, draft, f"{STATE}/{file.relative_to(source.state_dir).as_posix()}")
            for file in files
            if file.is_file() and not file.is_symlink()
        ]
    if source.config is not None and source.config.is_file():
        found.append(copy_piece(source.config, draft, f"{CONFIG}/{source.config.name}"))
    return tuple(found)


@contextmanager
def _draft_of(target: Path) -> Iterator[Path]:
    """Yield the folder beside `target` that is filled; what an earlier one left there is gone.

    Raises:
        BackupError: somebody else is filling it, or something else has its name.
    """
    draft = target.with_name(target.name + UNFINISHED)
    draft.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        draft.mkdir(mode=0o700)
    _check_ours(draft)
    lock = os.open(draft / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"another backup is being written to {target}; name another folder"
            raise BackupError(message) from None
        try:
            _empty(draft)
            yield draft
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    finally:
        os.close(lock)


def _check_ours(draft: Path) -> None:
    """Return if `draft` is what an earlier backup left, or new; what is another's is not emptied.

    Raises:
        BackupError: it is not, or is a link to somewhere else.
    """
    status = draft.lstat()
    is_private = stat.S_ISDIR(status.st_mode) and not status.st_mode & 0o077
    is_ours = is_private and status.st_uid == os.geteuid()
    if not is_ours or (any(draft.iterdir()) and not (draft / _LOCK).is_file()):
        message = f"{draft} is in the way and no backup left it; move it, or name another folder"
        raise BackupError(message)


def _empty(draft: Path) -> None:
    for path in draft.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name != _LOCK:
            path.unlink()
