"""What is derived from the rows of experiences beside their words, made anew out of the rows."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, delete, literal_column, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from governor.ids import TenantId
from memory_store.engine import driver_of
from memory_store.experiences.rows import texts_of, undecoded
from memory_store.experiences.tables import experience_links, experience_terms, experiences
from memory_store.experiences.values import Relation
from memory_store.statement import Driver, Statement, Value
from memory_store.writer import Writer

_AT_ONCE = 500
_rows, _links = experiences.c, experience_links.c
_PAGE = Statement(
    select(_rows.number, _rows.namespace, _rows.derived_from, _rows.supersedes)
    .where(_rows.tenant == bindparam("tenant"), _rows.number > bindparam("after"))
    .order_by(_rows.number)
    .limit(bindparam("most", type_=BigInteger))
    .offset(literal_column("0", BigInteger))
)
_NUMBER = Statement(
    select(_rows.number, _rows.namespace).where(
        _rows.tenant == bindparam("tenant"), _rows.experience_id == bindparam("experience_id")
    )
)
_TIED = Statement(
    select(_links.target)
    .join_from(experience_links, experiences, _rows.number == _links.target)
    .where(_links.source == bindparam("number"), _links.relation == bindparam("relation"))
)
_TIE = Statement(
    upsert(experience_links)
    .values({name: bindparam(name) for name in ("source", "target", "relation")})
    .on_conflict_do_nothing()
)
_UNTIE = Statement(
    delete(experience_links).where(
        _links.source == bindparam("source"),
        _links.target == bindparam("target"),
        _links.relation == bindparam("relation"),
    )
)


class Mending:
    """Mends what withdrawals and searches go by, a few experiences in each transaction."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def mend(self, tenant: TenantId) -> None:
        """Return when the ties of a tenant's experiences and the places of their words are right.

        Raises:
            StoreUnavailableError: the database cannot be written.
        """
        await self._writer.run(partial(_place_words, tenant=tenant))
        after: int | None = 0
        while after is not None:
            after = await self._writer.run(partial(_tie_some, tenant=tenant, after=after))


def _place_words(connection: Connection, *, tenant: TenantId) -> None:
    """Put words that stand in another namespace into that of their experience."""
    terms = experience_terms.c
    is_here = (_rows.number == terms.number) & (_rows.tenant == tenant)
    place = select(_rows.namespace).where(is_here).scalar_subquery()
    is_elsewhere = select(_rows.number).where(is_here, _rows.namespace != terms.namespace).exists()
    connection.execute(update(experience_terms).where(is_elsewhere).values(namespace=place))


def _tie_some(connection: Connection, *, tenant: TenantId, after: int) -> int | None:
    """Tie the experiences behind a number to what they name; return the last one's number."""
    driver = driver_of(connection)
    asked: dict[str, Value] = {"tenant": tenant, "after": after, "most": _AT_ONCE}
    with undecoded(driver):
        rows = _PAGE.rows(driver, asked)
        for row in rows:
            _tie(driver, tenant, row)
    return rows[-1][0] if rows else None


def _tie(driver: Driver, tenant: TenantId, row: Sequence[Any]) -> None:
    number, namespace, derived_from, supersedes = row
    try:
        sources = texts_of(derived_from)
    except (TypeError, ValueError, RecursionError):
        return  # nobody knows what it was made of
    # What came back after it under such an id is another.
    made_of = {there for there, _ in _numbers(driver, tenant, sources) if there < number}
    relation = Relation.DERIVED_FROM.value
    tied = {target for (target,) in _TIED.rows(driver, {"number": number, "relation": relation})}
    corrected = {
        there
        for there, space in _numbers(driver, tenant, [supersedes])
        if space == namespace and there < number
    }
    _TIE.run_each(driver, _ends(number, made_of - tied, relation))
    _UNTIE.run_each(driver, _ends(number, tied - made_of, relation))
    _TIE.run_each(driver, _ends(number, corrected, Relation.SUPERSEDES.value))


def _numbers(
    driver: Driver, tenant: TenantId, ids: Iterable[str | bytes | None]
) -> list[tuple[int, str]]:
    asked: list[dict[str, Value]] = [
        {"tenant": tenant, "experience_id": one}
        for one in dict.fromkeys(ids)
        if isinstance(one, str)
    ]
    return [(number, namespace) for number, namespace in _NUMBER.rows_many(driver, asked)]


def _ends(source: int, targets: Iterable[int], relation: str) -> list[dict[str, Value]]:
    return [
        {"source": source, "target": target, "relation": relation} for target in sorted(targets)
    ]
