"""What the admin API says of playbooks and of what the memory is worth."""

from dataclasses import asdict
from typing import Annotated

from pydantic import Field

from governor.experience.playbook import Bullet
from memory_store.lessons.figures import ChoiceFigures, ClassRecord, LaneFigures
from memory_store.lessons.playbooks import KeptPlaybook, PlaybookVersion, PlaybookView
from memory_store.lessons.questions import QuietFigures
from runtime.admin.shapes.fields import Label, Out
from runtime.admin.shapes.memory import OfTenant


class GoBack(OfTenant):
    """To which version a playbook goes back."""

    version: Annotated[int, Field(strict=True, ge=0)]


class TakeOver(OfTenant):
    """Which bullet becomes an operator's word."""

    bullet: Label


class PlaybookNamed(Out):
    """A playbook without its bullets."""

    id: str
    namespace: str
    task_class: str
    version: int
    changed_at_ms: int


class BulletShown(Out):
    """A bullet, whose word it is, and what became of those who followed it."""

    id: str
    section: str
    text: str
    lane: str
    instructs: bool
    helped: int
    harmed: int
    sources: list[str]
    says_the_same: list[str]


class PlaybookShown(PlaybookNamed):
    """A playbook with its bullets, the best first."""

    bullets: list[BulletShown]


class VersionShown(Out):
    """A version: how many changes came with it, how many of them no longer count, whose."""

    version: int
    changes: int
    undone: int
    written_by: list[str]
    at_ms: int


class KeptShown(Out):
    """How much is kept of a kind in a lane."""

    lane: str
    kind: str
    standing: str
    experiences: int
    content_bytes: int


class QuietShown(Out):
    """What work in quiet hours took, and what the answers made then saved their askers."""

    works: int
    made: int
    wall_ms: int
    tokens: int
    cost_microusd: int
    served: int
    tokens_saved: int


class ClassShown(Out):
    """How the tasks of a class went of which somebody said so."""

    task_class: str
    tasks: int
    solved: int


class ChosenShown(Out):
    """How often a search was done by a plan, or an offer ended so, and what that took."""

    what: str
    arm: str
    choices: int
    explored: int
    spoken_of: int
    tokens: int
    latency_us: int


class StatsShown(Out):
    """What there is in a tenant's memory, and what it is worth."""

    kept: list[KeptShown]
    quiet: QuietShown
    classes: list[ClassShown]
    choices: list[ChosenShown]


def named(view: PlaybookView | KeptPlaybook) -> PlaybookNamed:
    """Return what a playbook is known by."""
    return PlaybookNamed(
        id=view.playbook_id,
        namespace=view.namespace,
        task_class=view.task_class,
        version=view.version,
        changed_at_ms=view.changed_at_ms,
    )


def playbook_shown(kept: KeptPlaybook) -> PlaybookShown:
    """Return a playbook with what is to be read of it."""
    bullets = [_bullet(one) for one in kept.playbook.shown]
    return PlaybookShown(**named(kept).model_dump(), bullets=bullets)


def version_shown(version: PlaybookVersion) -> VersionShown:
    """Return a version as the API shows it."""
    return VersionShown(
        version=version.version,
        changes=version.deltas,
        undone=version.undone,
        written_by=list(version.written_by),
        at_ms=version.at_ms,
    )


def stats_shown(
    kept: tuple[LaneFigures, ...],
    quiet: QuietFigures,
    classes: tuple[ClassRecord, ...],
    choices: tuple[ChoiceFigures, ...],
) -> StatsShown:
    """Return the figures of a tenant as the API shows them."""
    return StatsShown(
        kept=[KeptShown(**asdict(one)) for one in kept],
        quiet=QuietShown(**asdict(quiet)),
        classes=[ClassShown(**asdict(one)) for one in classes],
        choices=[ChosenShown(**asdict(one)) for one in choices],
    )


def _bullet(one: Bullet) -> BulletShown:
    return BulletShown(
        id=one.bullet,
        section=one.section,
        text=one.text,
        lane=one.lane.value,
        instructs=one.instructs,
        helped=one.helpful,
        harmed=one.harmful,
        sources=sorted(one.sources),
        says_the_same=sorted(one.links),
    )
