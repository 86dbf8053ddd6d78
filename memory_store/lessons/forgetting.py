"""What goes from everything learned when experiences go."""

from collections.abc import Sequence

from sqlalchemy import Connection

from governor.ids import ExperienceId, TenantId
from memory_store.lessons.cases import forget_cases
from memory_store.lessons.playbooks import forget_sources
from memory_store.lessons.questions import forget_answers


def forget_experiences(
    connection: Connection, tenant: TenantId, ids: Sequence[ExperienceId]
) -> None:
    """Erase what is kept of experiences that were erased or revoked, in their transaction.

    What a model learned of the worth of cases stays: it is sums of numbers over all of them.
    """
    forget_cases(connection, tenant, ids)
    forget_sources(connection, tenant, ids)
    forget_answers(connection, tenant, ids)
