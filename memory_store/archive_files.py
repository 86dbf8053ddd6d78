"""The archive's files: each written whole or not at all, each tenant in a folder of its own."""

import hashlib
import itertools
import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path

from governor.ids import ArchiveId, TenantId
from memory_store.errors import ArchiveCorruptError, StoreUnavailableError

_UNFINISHED = ".tmp"
_NAME = rf"_[0-9a-f]{{32}}({re.escape(_UNFINISHED)})?"
_LISTED_AT_ONCE = 512


class ArchiveFiles:
    """Reads, writes and removes files; every method blocks and belongs in a worker thread."""

    def __init__(self, folder: Path, *, prefix: str = "arc") -> None:
        self._folder = folder
        self._ours = re.compile(prefix + _NAME)

    def path(self, tenant: TenantId, archive_id: ArchiveId) -> Path:
        """Return where an entry is kept."""
        # A tenant's id may hold anything; its hash is a safe name and keeps tenants apart.
        tenant_folder = hashlib.blake2b(tenant.encode(), digest_size=16).hexdigest()
        return self._folder / tenant_folder / archive_id

    def write(self, path: Path, content: bytes) -> str:
        """Store `content` so that `path` is either whole or absent, and return its SHA-256.

        Raises:
            StoreUnavailableError: the disk refused.
        """
        temporary = path.with_suffix(_UNFINISHED)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "wb") as file:  # noqa: PTH123 - Path cannot open a descriptor
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _fsync_folder(path.parent)
        except OSError as error:
            temporary.unlink(missing_ok=True)
            raise StoreUnavailableError from error
        return hashlib.sha256(content).hexdigest()

    def read(self, path: Path, *, sha256: str) -> bytes:
        """Return the content of a file that proved intact.

        Raises:
            ArchiveCorruptError: the file is missing or not what was stored.
            StoreUnavailableError: the disk refused.
        """
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise ArchiveCorruptError from None
        except OSError as error:
            raise StoreUnavailableError from error
        if hashlib.sha256(content).hexdigest() != sha256:
            raise ArchiveCorruptError
        return content

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove files, those that are gone already included.

        Raises:
            StoreUnavailableError: the disk refused; some may be left.
        """
        try:
            for path in paths:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnavailableError from error

    def written_before(self, before_ms: int) -> Generator[Sequence[Path], None, None]:
        """Yield the archive's older files, some at a time; what is not the archive's is left out.

        Raises:
            StoreUnavailableError: the disk refused.
        """
        try:
            for tenant_folder in _entries(self._folder):
                if tenant_folder.is_dir(follow_symlinks=False):
                    older = _older(Path(tenant_folder), before_ms, self._ours)
                    while batch := tuple(itertools.islice(older, _LISTED_AT_ONCE)):
                        yield batch
        except OSError as error:
            raise StoreUnavailableError from error


def entry_of(path: Path) -> ArchiveId:
    """Return the entry that a file is of, finished or not."""
    return ArchiveId(path.name.removesuffix(_UNFINISHED))


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            yield from entries
    except FileNotFoundError:
        """Nothing was archived yet."""


def _older(folder: Path, before_ms: int, ours: re.Pattern[str]) -> Iterator[Path]:
    for entry in _entries(folder):
        if not ours.fullmatch(entry.name) or not entry.is_file(follow_symlinks=False):
            continue
        try:
            written_at_ms = entry.stat(follow_symlinks=False).st_mtime_ns // 1_000_000
        except FileNotFoundError:
            continue  # removed since it was listed
        if written_at_ms < before_ms:
            yield Path(entry)


def _fsync_folder(folder: Path) -> None:
    # The name is in the folder, and is as durable as that.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
