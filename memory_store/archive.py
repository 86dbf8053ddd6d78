"""The archive: results too large for a model's context, kept whole in files."""

import hashlib
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from sqlalchemy import insert, select

from governor.ids import ArchiveId, CallId, PrincipalId, SessionId, TenantId
from memory_store.errors import (
    ArchiveCorruptError,
    ArchiveNotFoundError,
    ArchiveTooLargeError,
    StoreUnavailableError,
)
from memory_store.reader import Reader
from memory_store.tables import archives
from memory_store.writer import Writer

CONTENT_BYTES_MAX = 64 * 1024 * 1024
SLICE_BYTES_MAX = 1024 * 1024
_FILES_AT_ONCE = 4


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


class Archive:
    """Keeps content byte for byte, each tenant in a folder of its own."""

    def __init__(self, folder: Path, *, writer: Writer, reader: Reader) -> None:
        self._folder = folder
        self._writer = writer
        self._reader = reader
        self._slots = anyio.CapacityLimiter(_FILES_AT_ONCE)

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

        A crash between the two leaves a file that nothing names, never a row without a file.

        Raises:
            ArchiveTooLargeError: the content is above `CONTENT_BYTES_MAX`.
            StoreUnavailableError: the disk or the database refused.
        """
        if len(content) > CONTENT_BYTES_MAX:
            message = f"{len(content)} bytes are above the {CONTENT_BYTES_MAX} of one entry"
            raise ArchiveTooLargeError(message)
        archive_id = ArchiveId(f"arc_{secrets.token_hex(16)}")
        path = self._path(tenant, archive_id)
        sha256 = await anyio.to_thread.run_sync(_write, path, content, limiter=self._slots)
        row = {
            "archive_id": archive_id,
            "tenant": tenant,
            "agent": agent,
            "session": session,
            "call_id": call_id,
            "sha256": sha256,
            "size_bytes": len(content),
            "media_type": media_type,
            "created_at_ms": now_ms,
        }
        await self._writer.run(lambda connection: connection.execute(insert(archives), row).close())
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
            ArchiveNotFoundError: there is no such entry, or it is another agent's.
            ArchiveCorruptError: the file is missing or not what was stored.
        """
        query = select(archives).where(
            archives.c.archive_id == archive_id,
            archives.c.tenant == tenant,
            archives.c.agent == agent,
        )
        row = await self._reader.run(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise ArchiveNotFoundError
        content = await anyio.to_thread.run_sync(
            _read_intact, self._path(tenant, archive_id), row, limiter=self._slots
        )
        start = max(0, offset)
        end = start + max(0, min(length, SLICE_BYTES_MAX))
        return ArchiveSlice(
            content=content[start:end],
            offset=start,
            total_bytes=row.size_bytes,
            sha256=row.sha256,
            media_type=row.media_type,
        )

    def _path(self, tenant: TenantId, archive_id: ArchiveId) -> Path:
        # A tenant's id may hold anything; its hash is a safe name and keeps tenants apart.
        tenant_folder = hashlib.blake2b(tenant.encode(), digest_size=16).hexdigest()
        return self._folder / tenant_folder / archive_id


def _write(path: Path, content: bytes) -> str:
    """Store `content` so that `path` is either whole or absent, and return its SHA-256."""
    temporary = path.with_suffix(".tmp")
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


def _fsync_folder(folder: Path) -> None:
    # The name is in the folder, and is as durable as that.
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read_intact(path: Path, row: Any) -> bytes:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ArchiveCorruptError from None
    except OSError as error:
        raise StoreUnavailableError from error
    if hashlib.sha256(content).hexdigest() != row.sha256:
        raise ArchiveCorruptError
    return content
