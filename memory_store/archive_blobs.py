"""The archive's contents in the database, where every sidecar can read what one stored."""

import hashlib
from collections.abc import Generator, Iterable, Sequence
from pathlib import Path

from sqlalchemy import Engine, Table, delete, func, insert, select

from governor.ids import ArchiveId, TenantId
from memory_store.engine import translated
from memory_store.errors import ArchiveCorruptError
from memory_store.tables import archive_blobs

_LISTED_AT_ONCE = 512


class ArchiveBlobs:
    """Reads, writes and removes contents; every method blocks and belongs in a worker thread.

    It keeps what `ArchiveFiles` promises. A path here has no folder: it is the entry's name.
    It has connections of its own, so that large contents pass by the writer.
    """

    def __init__(self, engine: Engine, *, table: Table = archive_blobs) -> None:
        self._engine = engine
        self._table = table
        # The entry's name, whatever it is called there.
        (self._name,) = table.primary_key.columns

    def path(self, tenant: TenantId, archive_id: ArchiveId) -> Path:
        """Return where an entry is kept."""
        return Path(archive_id)

    def write(self, path: Path, content: bytes) -> str:
        """Store `content` and return its SHA-256.

        Raises:
            StoreUnavailableError: the database refused.
        """
        row = {self._name.name: path.name, "content": content, "written_at_ms": _server_ms()}
        with translated(), self._engine.begin() as connection:
            connection.execute(insert(self._table).values(row))
        return hashlib.sha256(content).hexdigest()

    def read(self, path: Path, *, sha256: str) -> bytes:
        """Return the content of an entry that proved intact.

        Raises:
            ArchiveCorruptError: it is missing or not what was stored.
            StoreUnavailableError: the database refused.
        """
        query = select(self._table.c.content).where(self._name == path.name)
        with translated(), self._engine.begin() as connection:
            content = connection.execute(query).scalar()
        if content is None or hashlib.sha256(content).hexdigest() != sha256:
            raise ArchiveCorruptError
        return bytes(content)

    def remove(self, paths: Iterable[Path]) -> None:
        """Remove contents, those that are gone already included.

        Raises:
            StoreUnavailableError: the database refused; then all are left.
        """
        # In one order, so that two sidecars that remove the same wait and do not block.
        names = sorted(path.name for path in paths)
        with translated(), self._engine.begin() as connection:
            for name in names:
                connection.execute(delete(self._table).where(self._name == name))

    def written_before(self, before_ms: int) -> Generator[Sequence[Path], None, None]:
        """Yield the archive's older contents, some at a time.

        Raises:
            StoreUnavailableError: the database refused.
        """
        last = ""
        while names := self._names(before_ms, after=last):
            last = names[-1]
            yield tuple(Path(name) for name in names)

    def _names(self, before_ms: int, *, after: str) -> Sequence[str]:
        query = (
            select(self._name)
            .where(self._table.c.written_at_ms < before_ms, self._name > after)
            .order_by(self._name)
            .limit(_LISTED_AT_ONCE)
        )
        with translated(), self._engine.begin() as connection:
            return connection.scalars(query).all()


def _server_ms() -> object:
    """Return the server's clock, which all sidecars have in common."""
    return func.floor(func.extract("epoch", func.clock_timestamp()) * 1000)
