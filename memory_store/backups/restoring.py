"""Putting a backup back: proved first, made ready beside, and then in place at one stroke."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from memory_store.backups.file_store import contents_of, examine
from memory_store.backups.manifest import STATE, Kind, Manifest, Piece, read_manifest
from memory_store.backups.pieces import (
    Told,
    check_pieces,
    copy_piece,
    disk_errors,
    hash_piece,
    sync_folder,
    sync_folders,
    untold,
)
from memory_store.backups.server_store import fill_server
from memory_store.backups.taking import PLACES
from memory_store.errors import BackupError
from memory_store.lock import LOCK_NAME, exclusive
from memory_store.restored import PLAN, READY, finish_restore, write_plan
from memory_store.schema import steps_from
from memory_store.store import make_private

_DRAFT = "restoring"
_OF_RESTORES = frozenset({LOCK_NAME, PLAN, READY, _DRAFT})
_NAMES_MAX = 1_000
# What a store in files has in its state directory, the log of its database included.
_OF_STORE = (
    PLACES.database, f"{PLACES.database}-wal", f"{PLACES.database}-shm", PLACES.archive,
    PLACES.experiences,
)  # fmt: skip


def check_backup(backup: Path, *, told: Told = untold) -> Manifest:
    """Return what the backup holds, once every piece proved to be what was written.

    Raises:
        BackupError: it is damaged, unfinished, or none.
        SchemaMismatchError: a newer version made it.
    """
    manifest = read_manifest(backup)
    steps_from(manifest.revision, place=f"in the backup {backup}")
    with disk_errors():
        check_pieces(backup, manifest, told)
    return manifest


def restore_backup(
    backup: Path,
    state_dir: Path,
    *,
    url: str | None,
    now_ms: int,
    replaces: bool = False,
    told: Told = untold,
) -> Manifest:
    """Return what was put in place; whatever ends this before, all is as it was.

    What a state directory held is set aside in it; what a server's database held is gone.

    Raises:
        BackupError: the backup is damaged, or would go over what is there.
        SchemaMismatchError: a newer version made it.
        StateDirectoryBusyError: a sidecar uses the directory.
        StoreUnavailableError: the directory or the server refused.
    """
    manifest = read_manifest(backup)
    _check_kind(manifest, url)
    make_private(state_dir)
    with disk_errors(), exclusive(state_dir):
        if finish_restore(state_dir) == manifest.backup_id and url is None:
            return manifest
        check_backup(backup, told=told)
        aside = _unused(state_dir, f"replaced-{now_ms}")
        with _drafted(
            backup, state_dir, manifest, aside=aside, replaces=replaces, told=told
        ) as draft:
            # Its database may refuse: until it has taken all, the directory is as it was.
            if url is not None:
                fill_server(url, backup, manifest, replaces=replaces, told=told)
            draft.rename(state_dir / READY)
        sync_folder(state_dir)
        finish_restore(state_dir)
    return manifest


def _unused(folder: Path, name: str) -> str:
    names = (name, *(f"{name}-{number}" for number in range(2, _NAMES_MAX)))
    return next(one for one in names if not (folder / one).exists())


def _check_kind(manifest: Manifest, url: str | None) -> None:
    if manifest.kind is Kind.SQLITE and url is not None:
        message = (
            "the backup is of a store in files and a server's URL is configured; "
            "restore it without the URL, or use a backup of that server's store"
        )
        raise BackupError(message)
    if manifest.kind is Kind.POSTGRESQL and url is None:
        message = (
            "the backup is of a store on a PostgreSQL server; name an empty database "
            "in FLYBALL_STORE_URL or [store] url"
        )
        raise BackupError(message)


@contextmanager
def _drafted(
    backup: Path,
    state_dir: Path,
    manifest: Manifest,
    *,
    aside: str,
    replaces: bool,
    told: Told,
) -> Iterator[Path]:
    """Yield a folder of `state_dir` with all that belongs there, proved and on the disk.

    Nothing of it stays where it was not taken out of the way.
    """
    pieces = manifest.under(STATE)
    tops = {_top(piece) for piece in pieces}
    if tops & _OF_RESTORES:
        message = f"{backup} is no backup of ours: it would replace what restores work with"
        raise BackupError(message)
    brings = sorted(top for top in tops if not _is_there(state_dir, top, pieces))
    makes_room = {*brings, *(_OF_STORE if manifest.kind is Kind.SQLITE else ())}
    clears = sorted(name for name in makes_room if (state_dir / name).exists())
    if clears and not replaces:
        message = (
            f"{state_dir} is in use: it holds {', '.join(clears)}; add --force to have that set "
            f"aside in {state_dir / aside}, or name an empty directory with --state"
        )
        raise BackupError(message)
    draft = state_dir / _DRAFT
    if draft.exists():
        shutil.rmtree(draft)
    draft.mkdir(mode=0o700)
    try:
        for piece in pieces:
            if _top(piece) in brings:
                _copied_proved(backup, draft, piece, told)
        if manifest.kind is Kind.SQLITE:
            _examine(draft, manifest)
        write_plan(draft, backup_id=manifest.backup_id, brings=brings, clears=clears, aside=aside)
        sync_folders(draft)
        yield draft
    finally:
        if draft.exists():
            shutil.rmtree(draft)


def _copied_proved(backup: Path, draft: Path, piece: Piece, told: Told) -> None:
    copied = copy_piece(backup / piece.path, draft, _within(piece), told)
    if copied.sha256 != piece.sha256:
        message = f"{draft / _within(piece)} is not what was read; the disk may be failing"
        raise BackupError(message)


def _examine(draft: Path, manifest: Manifest) -> None:
    """Return if the books add up, and every content that a row names is there."""
    database = draft / PLACES.database
    examine(database)
    missing = [
        content.path
        for content in contents_of(database, PLACES)
        if content.path not in manifest.damaged and not (draft / content.path).is_file()
    ]
    if missing:
        message = f"the backup lacks contents that its rows name: {', '.join(missing[:5])}"
        raise BackupError(message)


def _is_there(state_dir: Path, top: str, pieces: Sequence[Piece]) -> bool:
    """Tell whether a key, or a folder of them, stands in its place as it was backed up."""
    if top in _OF_STORE:
        return False
    place = state_dir / top
    found = [path for path in place.rglob("*") if path.is_file()] if place.is_dir() else [place]
    wanted = [piece for piece in pieces if _top(piece) == top]
    return len(found) == len(wanted) and all(
        (state_dir / _within(piece)).is_file()
        and hash_piece(state_dir, _within(piece)).sha256 == piece.sha256
        for piece in wanted
    )


def _top(piece: Piece) -> str:
    return piece.path.split("/")[1]


def _within(piece: Piece) -> str:
    return piece.path.removeprefix(f"{STATE}/")
