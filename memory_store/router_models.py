"""Learned models of the router: candidates, the one in force, and what its bandit has learned."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from governor.ids import CallId
from memory_store.advisory import Duty, in_turn
from memory_store.audit import Actor, note
from memory_store.errors import AlreadyExistsError, NotFoundError, VersionConflictError
from memory_store.reader import Reader
from memory_store.router_tables import router_decisions, router_models, router_state
from memory_store.writer import Writer

MODELS_SHOWN_MAX = 200
# Newer ones push retired models out; candidates that nobody promoted go with them.
MODELS_MAX = 20
# What was rated since a model was trained; of more only the latest is learned again.
LEARNED_AGAIN_MAX = 5_000
_ABOUT = tuple(column for column in router_models.c if column.name != "content")


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterModelView:
    """What is known of a learned model beside its content.

    `parent` was in force when it was trained, `before` when it was promoted; None is the tier
    rules. What was logged until `learned_until_ms` is learned in it.
    """

    version: str
    state: str
    parent: str | None
    before: str | None
    checksum: str
    learned_until_ms: int
    evidence: str
    created_at_ms: int
    created_by: str
    changed_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRouterModel:
    """A model that was just trained."""

    version: str
    content: bytes
    checksum: str
    parent: str | None
    learned_until_ms: int
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterStanding:
    """What is in force, and what its bandit has learned; None where that is known already.

    `revision` counts the promotions and rollbacks, `learned_revision` the lessons as well.
    """

    incumbent: str | None = None
    candidate: str | None = None
    revision: int = 0
    learned_revision: int = 0
    learned: bytes | None = None
    learned_at_ms: int = 0
    learn_since_ms: int = 0


NOTHING_IN_FORCE = RouterStanding()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taught:
    """What of a call is in the bandit now, out of a verdict of a score and a weight.

    `by` names the model, and whatever else decides whether it can be taken back.
    """

    call_id: CallId
    score: float
    weight: float
    weight_taught: float
    by: str


class RouterShelf:
    """Keeps models by their version, and says which of them is in force."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def standing(self, *, known_learned: int = -1) -> RouterStanding:
        """Return what is in force; of what was learned only what is newer than is known."""
        return await self._reader.run(
            lambda connection: _standing(connection, known_learned=known_learned)
        )

    async def content(self, version: str) -> bytes:
        """Return a model.

        Raises:
            NotFoundError: there is none of this version.
        """
        query = select(router_models.c.content).where(router_models.c.version == version)
        found = await self._reader.run(lambda connection: connection.scalar(query))
        if found is None:
            raise _unknown(version)
        return bytes(found)

    async def all(self) -> tuple[RouterModelView, ...]:
        """Return the models, the latest first."""
        query = (
            select(*_ABOUT)
            .order_by(router_models.c.created_at_ms.desc(), router_models.c.version)
            .limit(MODELS_SHOWN_MAX)
        )
        rows = await self._reader.run(lambda connection: connection.execute(query).all())
        return tuple(_view(row) for row in rows)

    async def get(self, version: str) -> RouterModelView:
        """Return what is known of a model.

        Raises:
            NotFoundError: there is none of this version.
        """
        return await self._reader.run(lambda connection: _get(connection, version))

    async def add(self, model: NewRouterModel, *, by: Actor, now_ms: int) -> RouterModelView:
        """Keep a model as a candidate; the same model again is the one that is there.

        Raises:
            AlreadyExistsError: another model has this version.
        """

        def work(connection: Connection) -> RouterModelView:
            query = select(router_models.c.checksum).where(router_models.c.version == model.version)
            known = connection.scalar(query)
            if known is not None:
                if known != model.checksum:
                    message = f"there is another router model {model.version}"
                    raise AlreadyExistsError(message)
                return _get(connection, model.version)
            _make_room(connection)
            connection.execute(insert(router_models), _row(model, by=by, now_ms=now_ms))
            note(
                connection,
                by=by,
                at_ms=now_ms,
                action="router.train",
                target=model.version,
                before=None,
                after={"parent": model.parent, "bytes": len(model.content)},
            )
            return _get(connection, model.version)

        return await self._writer.run(in_turn(Duty.ADMINISTRATION, work))

    async def promote(
        self, version: str, *, expected_revision: int, by: Actor, now_ms: int
    ) -> RouterStanding:
        """Put a model in force; its bandit begins with what was rated since it was trained.

        Raises:
            NotFoundError: there is none of this version.
            VersionConflictError: another one was put in force since `expected_revision`.
        """

        def work(connection: Connection) -> RouterStanding:
            before = _expected(connection, expected_revision)
            model = _get(connection, version)
            if before.incumbent == version:
                return before
            _set_state(connection, version, "incumbent", now_ms=now_ms, before=before.incumbent)
            if before.incumbent is not None:
                _set_state(connection, before.incumbent, "retired", now_ms=now_ms)
            since_ms = _learn_again(connection, since_ms=model.learned_until_ms)
            _put_in_force(connection, before, version, since_ms=since_ms, now_ms=now_ms)
            _note_change(
                connection,
                "router.promote",
                before=before.incumbent,
                after=version,
                by=by,
                now_ms=now_ms,
            )
            return _standing(connection, known_learned=-1)

        return await self._writer.run(in_turn(Duty.ADMINISTRATION, work))

    async def rollback(self, *, expected_revision: int, by: Actor, now_ms: int) -> RouterStanding:
        """Put in force again what was before the incumbent; at the end those are the tier rules.

        Raises:
            NotFoundError: no model is in force.
            VersionConflictError: another one was put in force since `expected_revision`.
        """

        def work(connection: Connection) -> RouterStanding:
            standing = _expected(connection, expected_revision)
            if standing.incumbent is None:
                message = "no router model is in force; the tier rules decide"
                raise NotFoundError(message)
            now_is = _get(connection, standing.incumbent)
            _set_state(connection, now_is.version, "retired", now_ms=now_ms)
            since_ms = now_ms
            if now_is.before is not None:
                since_ms = _get(connection, now_is.before).learned_until_ms
                _set_state(connection, now_is.before, "incumbent", now_ms=now_ms)
            since_ms = _learn_again(connection, since_ms=since_ms)
            _put_in_force(connection, standing, now_is.before, since_ms=since_ms, now_ms=now_ms)
            _note_change(
                connection,
                "router.rollback",
                before=now_is.version,
                after=now_is.before,
                by=by,
                now_ms=now_ms,
            )
            return _standing(connection, known_learned=-1)

        return await self._writer.run(in_turn(Duty.ADMINISTRATION, work))

    async def learn(
        self,
        learned: bytes,
        taught: tuple[Taught, ...],
        *,
        over: RouterStanding,
        now_ms: int,
    ) -> int:
        """Keep what the bandit learned over what was known; return its revision.

        Raises:
            VersionConflictError: another sidecar learned, or a model was put in force, since.
        """

        def work(connection: Connection) -> int:
            found = _standing(connection, known_learned=over.learned_revision)
            if (found.revision, found.learned_revision) != (over.revision, over.learned_revision):
                raise VersionConflictError(
                    expected=over.learned_revision, actual=found.learned_revision
                )
            after = over.learned_revision + 1
            _write(
                connection,
                incumbent=over.incumbent,
                revision=over.revision,
                learned_revision=after,
                learned=learned,
                learned_at_ms=now_ms,
                learn_since_ms=over.learn_since_ms,
            )
            _mark_taught(connection, taught)
            return after

        return await self._writer.run(in_turn(Duty.LEARNING, work))


def _standing(connection: Connection, *, known_learned: int) -> RouterStanding:
    row = connection.execute(select(router_state)).one_or_none()
    table = router_models.c
    newest = (
        select(table.version)
        .where(table.state == "candidate")
        .order_by(table.created_at_ms.desc(), table.version)
        .limit(1)
    )
    candidate = connection.scalar(newest)
    if row is None:
        return RouterStanding(candidate=candidate)
    is_news = row.learned_revision > known_learned
    return RouterStanding(
        incumbent=row.incumbent,
        candidate=candidate,
        revision=row.revision,
        learned_revision=row.learned_revision,
        learned=bytes(row.learned) if is_news and row.learned is not None else None,
        learned_at_ms=row.learned_at_ms,
        learn_since_ms=row.learn_since_ms,
    )


def _expected(connection: Connection, revision: int) -> RouterStanding:
    found = _standing(connection, known_learned=-1)
    if found.revision != revision:
        raise VersionConflictError(expected=revision, actual=found.revision)
    return found


def _put_in_force(
    connection: Connection,
    before: RouterStanding,
    version: str | None,
    *,
    since_ms: int,
    now_ms: int,
) -> None:
    _write(
        connection,
        incumbent=version,
        revision=before.revision + 1,
        learned_revision=before.learned_revision + 1,
        learned=None,
        learned_at_ms=now_ms,
        learn_since_ms=since_ms,
    )


def _write(connection: Connection, **values: object) -> None:
    is_there = connection.scalar(select(router_state.c.id))
    if is_there is None:
        connection.execute(insert(router_state), {"id": 1, **values})
        return
    connection.execute(update(router_state).values(values))


def _learn_again(connection: Connection, *, since_ms: int) -> int:
    """Let what was rated since a model was trained be learned beside it; return since when."""
    table = router_decisions.c
    latest = (
        select(table.decided_at_ms)
        .where(table.score.is_not(None))
        .order_by(table.decided_at_ms.desc())
        .offset(LEARNED_AGAIN_MAX)
        .limit(1)
    )
    since_ms = max(since_ms, connection.scalar(latest) or 0)
    is_since = table.score.is_not(None) & (table.decided_at_ms > since_ms)
    connection.execute(update(router_decisions).where(is_since).values(is_pending=True))
    return since_ms


def _mark_taught(connection: Connection, taught: tuple[Taught, ...]) -> None:
    if not taught:
        return
    # What was said meanwhile is another verdict, and is learned the next time.
    table = router_decisions.c
    query = update(router_decisions).where(table.call_id == bindparam("of_call"))
    is_other = (table.score != bindparam("its_score")) | (table.weight != bindparam("its_weight"))
    connection.execute(
        query.values(
            learned_by=bindparam("tag"),
            learned_score=bindparam("its_score"),
            learned_weight=bindparam("taught"),
            is_pending=is_other,
        ),
        [
            {
                "of_call": one.call_id,
                "its_score": one.score,
                "its_weight": one.weight,
                "taught": one.weight_taught,
                "tag": one.by,
            }
            for one in taught
        ],
    )


def _make_room(connection: Connection) -> None:
    """Remove the oldest models that are neither in force nor were before what is."""
    table = router_models.c
    kept = set(connection.scalars(select(table.before).where(table.state == "incumbent")))
    idle = select(table.version).where(table.state != "incumbent").order_by(table.created_at_ms)
    versions = [one for one in connection.scalars(idle) if one not in kept]
    for version in versions[: max(0, len(versions) + 1 - MODELS_MAX)]:
        connection.execute(router_models.delete().where(table.version == version))


def _set_state(
    connection: Connection, version: str, state: str, *, now_ms: int, **more: str | None
) -> None:
    connection.execute(
        update(router_models)
        .where(router_models.c.version == version)
        .values(state=state, changed_at_ms=now_ms, **more)
    )


def _note_change(
    connection: Connection,
    action: str,
    *,
    before: str | None,
    after: str | None,
    by: Actor,
    now_ms: int,
) -> None:
    note(
        connection,
        by=by,
        at_ms=now_ms,
        action=action,
        target="router",
        before={"incumbent": before},
        after={"incumbent": after},
    )


def _row(model: NewRouterModel, *, by: Actor, now_ms: int) -> dict[str, object]:
    return {
        "version": model.version,
        "state": "candidate",
        "parent": model.parent,
        "before": None,
        "checksum": model.checksum,
        "content": model.content,
        "learned_until_ms": model.learned_until_ms,
        "evidence": model.evidence,
        "created_at_ms": now_ms,
        "created_by": by.name,
        "changed_at_ms": now_ms,
    }


def _get(connection: Connection, version: str) -> RouterModelView:
    query = select(*_ABOUT).where(router_models.c.version == version)
    row = connection.execute(query).one_or_none()
    if row is None:
        raise _unknown(version)
    return _view(row)


def _unknown(version: str) -> NotFoundError:
    return NotFoundError(f"there is no router model {version}")


def _view(row: Any) -> RouterModelView:
    return RouterModelView(
        version=row.version,
        state=row.state,
        parent=row.parent,
        before=row.before,
        checksum=row.checksum,
        learned_until_ms=row.learned_until_ms,
        evidence=row.evidence,
        created_at_ms=row.created_at_ms,
        created_by=row.created_by,
        changed_at_ms=row.changed_at_ms,
    )
