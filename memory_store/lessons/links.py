"""Links between experiences that say nearly the same: a link is all that de-duplication does."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, insert, or_, select

from governor.ids import ExperienceId, TenantId
from memory_store.experiences.tables import experience_links, experiences
from memory_store.experiences.values import Relation
from memory_store.reader import Reader
from memory_store.writer import Writer

TIED_AT_ONCE = 200


class LinkBook:
    """Ties experiences of one tenant that say the same."""

    def __init__(self, *, writer: Writer, reader: Reader) -> None:
        self._writer = writer
        self._reader = reader

    async def tie(
        self, pairs: tuple[tuple[ExperienceId, ExperienceId], ...], *, tenant: TenantId
    ) -> int:
        """Return how many pairs were tied that were not; what is not there is passed over."""

        def work(connection: Connection) -> int:
            some = pairs[:TIED_AT_ONCE]
            numbers = _numbers(connection, {name for pair in some for name in pair}, tenant)
            wanted = {
                (numbers[later], numbers[earlier])
                for earlier, later in some
                if later in numbers and earlier in numbers and later != earlier
            }
            new = wanted - _tied(connection, wanted)
            rows = [
                {"source": source, "target": target, "relation": Relation.SAME_AS.value}
                for source, target in sorted(new)
            ]
            if rows:
                connection.execute(insert(experience_links), rows)
            return len(rows)

        return await self._writer.run(work) if pairs else 0

    async def tied_to(
        self, experience: ExperienceId, *, tenant: TenantId
    ) -> tuple[ExperienceId, ...]:
        """Return what says nearly the same as an experience, as far as it was noticed."""
        links, rows = experience_links.c, experiences.c

        def read(connection: Connection) -> tuple[ExperienceId, ...]:
            number = _numbers(connection, (experience,), tenant).get(experience)
            if number is None:
                return ()
            query = (
                select(rows.experience_id)
                .join(
                    experience_links, or_(links.source == rows.number, links.target == rows.number)
                )
                .where(
                    links.relation == Relation.SAME_AS.value,
                    or_(links.source == number, links.target == number),
                    rows.number != number,
                    rows.tenant == tenant,
                )
                .distinct()
                .order_by(rows.experience_id)
                .limit(TIED_AT_ONCE)
            )
            return tuple(ExperienceId(one) for one in connection.scalars(query))

        return await self._reader.run(read)


def _numbers(
    connection: Connection, names: Sequence[ExperienceId] | set[ExperienceId], tenant: TenantId
) -> Mapping[ExperienceId, int]:
    rows = experiences.c
    query = select(rows.experience_id, rows.number).where(
        rows.tenant == tenant, rows.experience_id.in_(list(names))
    )
    return {ExperienceId(row.experience_id): row.number for row in connection.execute(query)}


def _tied(connection: Connection, wanted: set[tuple[int, int]]) -> set[tuple[int, int]]:
    links = experience_links.c
    query = select(links.source, links.target).where(
        links.relation == Relation.SAME_AS.value,
        links.source.in_([source for source, _ in wanted]),
    )
    return {(row.source, row.target) for row in connection.execute(query)}
