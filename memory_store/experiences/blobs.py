"""Contents too large for a row: where they are put, and what removes those that no row names."""

import secrets
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from governor.ids import ArchiveId, TenantId
from memory_store.archive import FILES_AT_ONCE, Contents
from memory_store.errors import StoreUnavailableError
from memory_store.experiences.drafts import ReadyDraft

PREFIX = "exb"

T = TypeVar("T")


class Blobs:
    """Stores contents under names that are never used twice.

    A blob is stored before the row that names it and removed after it, so a row never names what
    is not there; what a crash leaves over is removed by the sweep.
    """

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._slots = anyio.CapacityLimiter(FILES_AT_ONCE)
        # Stored, while the writer may not have seen their rows.
        self.arriving: set[str] = set()

    async def put(
        self, tenant: TenantId, drafts: Sequence[ReadyDraft], addresses: Collection[str]
    ) -> Mapping[str, str]:
        """Return the names of the contents of `addresses`, once they are stored.

        They are `arriving` until they are `settled`.

        Raises:
            StoreUnavailableError: the disk or the database refused.
        """
        contents = {draft.experience.address: draft.content for draft in drafts if draft.is_blob}
        names: dict[str, str] = {}
        try:
            for address in addresses:
                name = f"{PREFIX}_{secrets.token_hex(16)}"
                self.arriving.add(name)
                names[address] = name
                await self._in_thread(
                    self._contents.write, self._path(tenant, name), contents[address]
                )
        except BaseException:
            self.arriving.difference_update(names.values())
            raise
        return names

    def settled(self, names: Collection[str]) -> None:
        """Take it that rows name these now, or never will."""
        self.arriving.difference_update(names)

    async def read(self, tenant: TenantId, name: str, *, address: str) -> bytes:
        """Return a content that proved intact.

        Raises:
            ArchiveCorruptError: it is missing or not what was stored.
            StoreUnavailableError: the disk or the database refused.
        """
        path = self._path(tenant, name)
        return await self._in_thread(partial(self._contents.read, path, sha256=address))

    async def remove(self, tenant: TenantId, names: Collection[str]) -> None:
        """Remove contents that no row names any more.

        Raises:
            StoreUnavailableError: the disk or the database refused; the sweep removes them.
        """
        if names:
            paths = [self._path(tenant, name) for name in names]
            await self._in_thread(self._contents.remove, paths)

    async def remove_files(self, files: Collection[Path]) -> None:
        """Remove contents that the sweep found.

        Raises:
            StoreUnavailableError: the disk or the database refused.
        """
        if files:
            await self._in_thread(self._contents.remove, files)

    async def older(self, before_ms: int) -> AsyncIterator[Sequence[Path]]:
        """Yield the contents that were stored before that time, some at a time.

        Raises:
            StoreUnavailableError: the disk or the database refused.
        """
        with closing(self._contents.written_before(before_ms)) as batches:
            while files := await self._in_thread(next, batches, ()):
                yield files

    async def discard(self, tenant: TenantId, names: Collection[str]) -> None:
        """Remove contents as far as possible; what is left is for the sweep."""
        with suppress(StoreUnavailableError):
            await self.remove(tenant, names)

    def _path(self, tenant: TenantId, name: str) -> Path:
        return self._contents.path(tenant, ArchiveId(name))

    async def _in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        return await anyio.to_thread.run_sync(partial(work, *arguments), limiter=self._slots)
