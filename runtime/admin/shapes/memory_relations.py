"""What the admin API says of what became of an experience."""

from collections.abc import Iterable

from governor.experience.experience import Experience
from memory_store.experiences.values import UseNote
from runtime.admin.shapes.fields import Out
from runtime.admin.shapes.memory import ExperienceOut, experience_out


class UseOut(Out):
    """That somebody was given an experience, whether it was used, and how that went (0 to 1)."""

    reader: str
    at_ms: int
    session: str | None
    call_id: str | None
    used: bool | None
    score: float | None


class RelationsOut(Out):
    """What was made of an experience, the first of it first, and its latest uses."""

    made_of_it: list[ExperienceOut]
    uses: list[UseOut]


def relations_out(made: Iterable[Experience], uses: Iterable[UseNote]) -> RelationsOut:
    """Return what became of an experience as the interface writes it."""
    return RelationsOut(
        made_of_it=[experience_out(one) for one in made],
        uses=[
            UseOut(
                reader=one.reader,
                at_ms=one.at_ms,
                session=one.session,
                call_id=one.call_id,
                used=one.used,
                score=one.score,
            )
            for one in uses
        ],
    )
