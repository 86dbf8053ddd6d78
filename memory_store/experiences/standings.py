"""Where experiences stand once they are corrected, and once the correction is withdrawn."""

from sqlalchemy import bindparam, update

from governor.experience.kinds import Standing
from memory_store.experiences.tables import experiences
from memory_store.statement import Statement

_rows = experiences.c
CORRECT = Statement(
    update(experiences)
    .where(_rows.number == bindparam("of_number"))
    .values(
        standing=bindparam("standing"),
        superseded_by=bindparam("by"),
        superseded_at_ms=bindparam("at_ms"),
        superseded_from_ms=bindparam("from_ms"),
    )
)


STAND = Statement(
    update(experiences)
    .where(_rows.number == bindparam("of_number"))
    .values(standing=bindparam("standing"))
)


def standing_corrected(standing: Standing) -> Standing:
    """Return where an experience stands once it is corrected: what is withheld stays so."""
    return Standing.SUPERSEDED if standing is Standing.ACTIVE else standing


def standing_restored(standing: Standing) -> Standing:
    """Return where an experience stands once its correction is withdrawn."""
    return Standing.ACTIVE if standing is Standing.SUPERSEDED else standing
