"""The archive: results too large for a model's context, kept whole in files."""

import secrets
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
from sqlalchemy import Connection, Row, select

from governor.ids import ArchiveId, CallId, PrincipalId, SessionId, TenantId
from memory_store.archive_files import entry_of
from memory_store.archive_rows import ArchiveRow, Removed, known_among, place, remove_before
from memory_store.errors import (
    ArchiveCorruptError,
    ArchiveNotFoundError,
    ArchiveTooLargeError,
    StoreOverloadedError,
    StoreUnavailableError,
)
from memory_store.reader import Reader
from memory_store.tables import archives
from memory_store.writer import Writer

CONTENT_BYTES_MAX = 64 * 1024 * 1024
SLICE_BYTES_MAX = 1024 * 1024
TENANT_BYTES_MAX = 1024 * 1024 * 1024
FILES_AT_ONCE = 4

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveEntry:
    """What was kept."""

    archive_id: ArchiveId
    sha256: str
    size_bytes: int
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveSlice:
    """Part of an entry; `sha256` is that of the whole."""

    content: bytes
    offset: int
    total_bytes: int
    sha256: str
    media_type: str


class Contents(Protocol):
    """Where the bytes are: files of this machine, or the database."""

    def path(self, tenant: TenantId, archive_id: ArchiveId) -> Path: ...  # noqa: D102

    def write(self, path: Path, content: bytes) -> str: ...  # noqa: D102

    def read(self, path: Path, *, sha256: str) -> bytes: ...  # noqa: D102

    def remove(self, paths: Iterable[Path]) -> None: ...  # noqa: D102

    def written_before(  # noqa: D102
        self, before_ms: int
    ) -> Generator[Sequence[Path], None, None]: ...


class Archive:
    """Keeps content byte for byte, up to `tenant_bytes_max` for each tenant.

    A row never names a file that is not there: a file is stored before its row and removed
    after it. So a crash in between leaves at most a file that no row names, and these are
    what `sweep` is for.
    """

    def __init__(
        self,
        contents: Contents,
        *,
        writer: Writer,
        reader: Reader,
        tenant_bytes_max: int = TENANT_BYTES_MAX,
    ) -> None:
        self._files = contents
        self._writer = writer
        self._reader = reader
        self._tenant_bytes_max = tenant_bytes_max
        self._slots = anyio.CapacityLimiter(FILES_AT_ONCE)
        # Entries whose file may be there already while the writer has not seen their row.
        self._arriving: set[ArchiveId] = set()

    async def put(
        self,
        content: bytes,
        *,
        tenant: TenantId,
        agent: PrincipalId,
        session: SessionId,
        call_id: CallId,
        media_type: str,
        now_ms: int,
    ) -> ArchiveEntry:
        """Return the entry, once file and row are stored.

        Where the tenant's quota is used up, its oldest entries give way.

        Raises:
            ArchiveTooLargeError: the content is above what one entry, or the tenant, may have.
            StoreUnavailableError: the disk or the database refused.
            StoreOverloadedError: too much waits to be written; nothing was stored.
        """
        bytes_max = min(CONTENT_BYTES_MAX, self._tenant_bytes_max)
        if len(content) > bytes_max:
            message = f"{len(content)} bytes are above the {bytes_max} of one entry"
            raise ArchiveTooLargeError(message)
        archive_id = ArchiveId(f"arc_{secrets.token_hex(16)}")
        path = self._files.path(tenant, archive_id)
        self._arriving.add(archive_id)
        try:
            sha256 = await self._in_thread(self._files.write, path, content)
            await self._place(
                ArchiveRow(
                    archive_id=archive_id,
                    tenant=tenant,
                    agent=agent,
                    session=session,
                    call_id=call_id,
                    sha256=sha256,
                    size_bytes=len(content),
                    media_type=media_type,
                    created_at_ms=now_ms,
                )
            )
        except StoreOverloadedError:
            # No row can follow, so the file need not wait for the sweep. After any other
            # error one may: a COMMIT that failed can prove to be stored.
            await self._discard([path])
            raise
        finally:
            self._arriving.discard(archive_id)
        return ArchiveEntry(
            archive_id=archive_id, sha256=sha256, size_bytes=len(content), media_type=media_type
        )

    async def read(
        self,
        archive_id: ArchiveId,
        *,
        tenant: TenantId,
        agent: PrincipalId,
        offset: int = 0,
        length: int = SLICE_BYTES_MAX,
    ) -> ArchiveSlice:
        """Return at most `SLICE_BYTES_MAX` bytes from `offset`, of a file that proved intact.

        Raises:
            ArchiveNotFoundError: there is no such entry (any more), or it is another agent's.
            ArchiveCorruptError: the file is missing or not what was stored.
        """
        row = await self._row(archive_id, tenant, agent)
        path = self._files.path(tenant, archive_id)
        try:
            content = await self._in_thread(partial(self._files.read, path, sha256=row.sha256))
        except ArchiveCorruptError:
            # A file goes after its row: if that is gone too, the entry was removed meanwhile.
            await self._row(archive_id, tenant, agent)
            raise
        start = max(0, offset)
        end = start + max(0, min(length, SLICE_BYTES_MAX))
        return ArchiveSlice(
            content=content[start:end],
            offset=start,
            total_bytes=row.size_bytes,
            sha256=row.sha256,
            media_type=row.media_type,
        )

    async def remove(self, *, before_ms: int) -> int:
        """Remove the entries older than `before_ms`; return how many they were.

        Raises:
            StoreUnavailableError: the database refused, or the disk; then rows are gone
                whose files the sweep has to remove.
        """
        work = partial(remove_before, before_ms=before_ms)
        count = 0
        while removed := await self._writer.run(work, may_be_dropped=True):
            await self._in_thread(self._files.remove, self._paths(removed))
            count += len(removed)
        return count

    async def sweep(self, *, before_ms: int) -> int:
        """Remove the files older than `before_ms` that no row names; return how many they were.

        Raises:
            StoreUnavailableError: the disk or the database refused.
        """
        count = 0
        with closing(self._files.written_before(before_ms)) as batches:
            while files := await self._in_thread(next, batches, ()):
                orphans = await self._orphans_among(files)
                await self._in_thread(self._files.remove, orphans)
                count += len(orphans)
        return count

    async def _orphans_among(self, files: Sequence[Path]) -> Sequence[Path]:
        """Return those of `files` that no row names, nor ever will."""
        known = await self._reader.run(lambda connection: _known(connection, files))
        suspects = [path for path in files if path not in known]
        # A file whose row is still to come is either arriving, or its row was handed to the
        # writer before this question, which takes its turn behind it. So the answer holds
        # however long that took, whatever the clocks say.
        suspects = [path for path in suspects if entry_of(path) not in self._arriving]
        if not suspects:
            return ()
        known = await self._writer.run(lambda connection: _known(connection, suspects))
        return [path for path in suspects if path not in known]

    async def _place(self, row: ArchiveRow) -> None:
        is_stored = False
        while not is_stored:
            placement = await self._writer.run(
                partial(place, row=row, bytes_max=self._tenant_bytes_max)
            )
            await self._discard(self._paths(placement.evicted))
            is_stored = placement.is_stored

    async def _discard(self, paths: Collection[Path]) -> None:
        """Remove files as far as possible; what is left is for the sweep."""
        if paths:
            with suppress(StoreUnavailableError):
                await self._in_thread(self._files.remove, paths)

    async def _row(self, archive_id: ArchiveId, tenant: TenantId, agent: PrincipalId) -> Row[Any]:
        query = select(archives).where(
            archives.c.archive_id == archive_id,
            archives.c.tenant == tenant,
            archives.c.agent == agent,
        )
        row = await self._reader.run(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise ArchiveNotFoundError
        return row

    def _paths(self, removed: Collection[Removed]) -> list[Path]:
        return [self._files.path(entry.tenant, entry.archive_id) for entry in removed]

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        return await anyio.to_thread.run_sync(partial(work, *arguments), limiter=self._slots)


def _known(connection: Connection, files: Collection[Path]) -> frozenset[Path]:
    names = known_among(connection, [path.name for path in files])
    return frozenset(path for path in files if path.name in names)
