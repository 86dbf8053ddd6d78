"""What sessions have seen and what their users said, kept over restarts and between sidecars."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, delete, func, insert, select, update

from governor.flow.labels import Label
from governor.ids import SessionId, TaskClass, ToolName
from memory_store.flow_tables import session_flows
from memory_store.reader import Reader
from memory_store.tables import sessions
from memory_store.writer import Writer

_DEPTH_MAX = 64
_REMOVED_AT_ONCE = 128
_COLUMNS = {
    Label.READS_PRIVATE: ("private_by", "private_at_ms"),
    Label.SEES_UNTRUSTED: ("untrusted_by", "untrusted_at_ms"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowView:
    """What is known of a session's flow; `words` None while nobody has said any.

    `root` is the session that it is kept under: a sub-session shares what its first ancestor
    has seen. `is_settled` says that this cannot change any more.
    """

    root: SessionId
    is_settled: bool
    marks: Mapping[Label, ToolName] = field(default_factory=dict)
    words: str | None = None
    words_from: str | None = None
    task_class: TaskClass | None = None


class FlowBook:
    """Reads and writes the flows of sessions."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def known(self, session: SessionId) -> FlowView:
        """Return what is kept of a session."""
        return await self._reader.run(lambda connection: _view(connection, session))

    async def mark(self, root: SessionId, labels: Mapping[Label, ToolName], *, now_ms: int) -> None:
        """Keep what the session has seen; what was kept before stays."""

        def work(connection: Connection) -> None:
            _ensure(connection, root, now_ms=now_ms)
            for label, tool in labels.items():
                by, at = (session_flows.c[name] for name in _COLUMNS[label])
                connection.execute(
                    update(session_flows)
                    .where(session_flows.c.session_id == root, by.is_(None))
                    .values({by: tool, at: now_ms, session_flows.c.changed_at_ms: now_ms})
                )

        await self._writer.run(work)

    async def say(
        self,
        root: SessionId,
        words: str,
        *,
        words_from: str,
        task_class: TaskClass | None,
        now_ms: int,
    ) -> bool:
        """Keep the user's words; False where there are some, or others were heard before them."""

        def work(connection: Connection) -> bool:
            _ensure(connection, root, now_ms=now_ms)
            said = connection.execute(
                update(session_flows)
                .where(
                    session_flows.c.session_id == root,
                    session_flows.c.words.is_(None),
                    session_flows.c.untrusted_by.is_(None),
                )
                .values(
                    words=words,
                    words_from=words_from,
                    task_class=task_class,
                    changed_at_ms=now_ms,
                )
            )
            return said.rowcount == 1

        return await self._writer.run(work)


def remove_old_flows(connection: Connection, *, before_ms: int) -> int:
    """Remove some flows of sessions that are over since `before_ms`; return how many."""
    last_seen = (
        select(func.max(sessions.c.last_seen_at_ms))
        .where(sessions.c.session_id == session_flows.c.session_id)
        .scalar_subquery()
    )
    ids = connection.scalars(
        select(session_flows.c.session_id)
        .where(session_flows.c.changed_at_ms < before_ms, func.coalesce(last_seen, 0) < before_ms)
        .limit(_REMOVED_AT_ONCE)
    ).all()
    if ids:
        connection.execute(delete(session_flows).where(session_flows.c.session_id.in_(ids)))
    return len(ids)


def _ensure(connection: Connection, root: SessionId, *, now_ms: int) -> None:
    is_this = session_flows.c.session_id == root
    if connection.scalar(select(session_flows.c.session_id).where(is_this)) is None:
        connection.execute(insert(session_flows), {"session_id": root, "changed_at_ms": now_ms})


def _view(connection: Connection, session: SessionId) -> FlowView:
    root, is_settled = session, False
    for _ in range(_DEPTH_MAX):
        row = connection.execute(
            select(sessions.c.parent).where(sessions.c.session_id == root)
        ).one_or_none()
        if row is not None:
            is_settled = True
        if row is None or row.parent is None:
            break
        root = SessionId(row.parent)
    kept = connection.execute(
        select(session_flows).where(session_flows.c.session_id == root)
    ).one_or_none()
    if kept is None:
        return FlowView(root=root, is_settled=is_settled)
    columns = kept._mapping  # noqa: SLF001 - public, despite its name
    seen = sorted(
        (columns[at], label, columns[by])
        for label, (by, at) in _COLUMNS.items()
        if columns[by] is not None
    )
    return FlowView(
        root=root,
        is_settled=is_settled,
        marks={label: ToolName(tool) for _, label, tool in seen},
        words=kept.words,
        words_from=kept.words_from,
        task_class=None if kept.task_class is None else TaskClass(kept.task_class),
    )
