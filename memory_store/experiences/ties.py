"""What ties experiences to those that they name, held against what they name."""

from collections.abc import Sequence

from sqlalchemy import Connection, select

from governor.experience.experience import Experience
from governor.ids import ExperienceId, TenantId
from memory_store.experiences.tables import experience_links, experiences
from memory_store.experiences.values import Relation

ASKED_AT_ONCE = 500

_rows = experiences.c


def untied(
    connection: Connection, found: Sequence[Experience], tenant: TenantId
) -> tuple[ExperienceId, ...]:
    """Return those of `found` that are not tied to what they name and what was there before."""
    named = {
        (one.number, source, Relation.DERIVED_FROM.value)
        for one in found
        for source in one.provenance.derived_from
    }
    named |= {
        (one.number, one.supersedes, Relation.SUPERSEDES.value)
        for one in found
        if one.supersedes is not None
    }
    links = experience_links.c
    tied = connection.execute(
        select(links.source, _rows.experience_id, links.relation)
        .join_from(experience_links, experiences, _rows.number == links.target)
        .where(links.source.in_([one.number for one in found]))
    )
    loose = named - {(source, target, relation) for source, target, relation in tied}
    targets = sorted({target for _, target, _ in loose})
    there: dict[str, tuple[int, str]] = {}
    for start in range(0, len(targets), ASKED_AT_ONCE):
        query = select(_rows.experience_id, _rows.number, _rows.namespace).where(
            _rows.tenant == tenant,
            _rows.experience_id.in_(targets[start : start + ASKED_AT_ONCE]),
        )
        for target, number, namespace in connection.execute(query):
            there[target] = (number, namespace)
    by_number = {one.number: one for one in found}
    at_fault = []
    for source, target, relation in sorted(loose):
        number, namespace = there.get(target, (source, ""))
        one = by_number[source]
        # What came back after it is another, and what it corrects is in its namespace.
        may_differ = relation == Relation.SUPERSEDES.value and namespace != one.namespace
        if number < source and not may_differ:
            at_fault.append(one.experience_id)
    return tuple(dict.fromkeys(at_fault))
