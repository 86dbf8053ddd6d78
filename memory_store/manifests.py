"""The manifests of upstreams as they were approved, each with who did it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Column, Connection, Table, Text, delete, insert, select

from governor.ids import UpstreamName
from governor.manifest import manifest_digest
from memory_store.advisory import Duty, in_turn
from memory_store.audit import Actor, note
from memory_store.errors import StoreUnavailableError
from memory_store.reader import Reader
from memory_store.rows import json_of
from memory_store.tables import metadata
from memory_store.versions import check_version
from memory_store.writer import Writer

manifests = Table(
    "manifests",
    metadata,
    Column("upstream", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
    Column("digest", Text, nullable=False),
    Column("content", Text, nullable=False),
    Column("approved_at_ms", BigInteger, nullable=False),
    Column("approved_by", Text, nullable=False),
)

Tools = Mapping[str, Mapping[str, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedManifest:
    """An upstream's tools by their names, as they were approved; `revision` counts how often."""

    upstream: UpstreamName
    revision: int
    tools: Tools
    approved_at_ms: int
    approved_by: str


class ManifestBook:
    """Keeps what was approved of each upstream."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def all(self) -> dict[UpstreamName, ApprovedManifest]:
        """Return what was approved, by upstream.

        Raises:
            StoreUnavailableError: it cannot be read.
        """
        found = await self._reader.run(
            lambda connection: [_manifest(row) for row in connection.execute(select(manifests))]
        )
        return {one.upstream: one for one in found}

    async def approve(
        self,
        upstream: UpstreamName,
        tools: Tools,
        *,
        expected_revision: int,
        by: Actor,
        now_ms: int,
    ) -> ApprovedManifest:
        """Keep `tools` as the whole of what is approved of an upstream.

        Raises:
            VersionConflictError: something else was approved since `expected_revision`.
        """
        after = ApprovedManifest(
            upstream=upstream,
            revision=expected_revision + 1,
            tools=tools,
            approved_at_ms=now_ms,
            approved_by=by.name,
        )

        def work(connection: Connection) -> ApprovedManifest:
            before = _find(connection, upstream)
            check_version(
                expected=expected_revision, actual=0 if before is None else before.revision
            )
            connection.execute(delete(manifests).where(manifests.c.upstream == upstream))
            connection.execute(
                insert(manifests),
                {
                    "upstream": upstream,
                    "revision": after.revision,
                    "digest": manifest_digest(tools),
                    "content": json_of(tools),
                    "approved_at_ms": now_ms,
                    "approved_by": by.name,
                },
            )
            note(
                connection,
                by=by,
                at_ms=now_ms,
                action="upstream.approve",
                target=upstream,
                before=None if before is None else _state(before),
                after=_state(after),
            )
            return after

        return await self._writer.run(in_turn(Duty.ADMINISTRATION, work))


def _state(manifest: ApprovedManifest) -> dict[str, object]:
    """Return what the audit log keeps: which tools, and a hash of all that they said."""
    return {"digest": manifest_digest(manifest.tools), "tools": sorted(manifest.tools)}


def _find(connection: Connection, upstream: UpstreamName) -> ApprovedManifest | None:
    query = select(manifests).where(manifests.c.upstream == upstream)
    row = connection.execute(query).one_or_none()
    return None if row is None else _manifest(row)


def _manifest(row: Any) -> ApprovedManifest:
    try:
        tools = json.loads(row.content)
        is_whole = manifest_digest(tools) == row.digest
    except (ValueError, AttributeError):
        is_whole = False
    if not is_whole:
        # What cannot be compared is not taken for unchanged.
        message = f"the stored manifest of {row.upstream} cannot be read"
        raise StoreUnavailableError(message)
    return ApprovedManifest(
        upstream=UpstreamName(row.upstream),
        revision=row.revision,
        tools=tools,
        approved_at_ms=row.approved_at_ms,
        approved_by=row.approved_by,
    )
