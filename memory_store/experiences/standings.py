"""Where experiences stand once they are corrected, and once the correction is withdrawn."""

from typing import Any

from sqlalchemy import ScalarSelect, bindparam, select, update

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
_giver = experiences.alias()


def _of_the_giver(name: str) -> ScalarSelect[Any]:
    return select(_giver.c[name]).where(_giver.c.number == bindparam("giver")).scalar_subquery()


# What corrects the giver, and from when on, is said of another experience too.
HAND_OVER = Statement(
    update(experiences)
    .where(_rows.number == bindparam("of_number"))
    .values(
        superseded_by=_of_the_giver("superseded_by"),
        superseded_at_ms=_of_the_giver("superseded_at_ms"),
        superseded_from_ms=_of_the_giver("superseded_from_ms"),
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
