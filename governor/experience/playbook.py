"""A playbook: what was found to work in a class of tasks, bullet by bullet (after ACE).

Nobody rewrites a playbook. It is the sum of small deltas, each with an id of its own, and the sum
is the same in whichever order they come and however often: a bullet is known by the hash of its
words and its lane, counters only ever add, links and retirements only ever join. So writers need
not wait for one another, a delta that comes twice counts once, and to roll back is to sum up
without those that came later. What says nearly the same is linked, never dropped.

A bullet stands in the lane of its least trusted source for good. An operator who promotes one says
it anew, in the operator's lane, beside the first; only those are ever handed on as instructions.
"""

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from governor.experience.certainty import bounds_of
from governor.experience.kinds import TrustLane
from governor.ids import ExperienceId

TEXT_CHARS_MAX = 400
SECTION_CHARS_MAX = 60
SOURCES_MAX = 32
_ID_BYTES = 10
# What a bullet that nobody tried is taken for: one that helped once and harmed once.
_PRIOR_EACH = 1.0
# So much evidence, and surely more harm than help: it is not shown any more.
_RETIRED_FROM = 5
# One agent opens any number of sessions, and must not silence what others found.
_AGENTS_AGAINST_MIN = 3
_DAY_MS = 86_400_000


class DeltaKind(StrEnum):
    """What a delta does to one bullet."""

    ADD = "add"
    STRENGTHEN = "strengthen"
    WEAKEN = "weaken"
    LINK = "link"
    RETIRE = "retire"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """A change of a playbook: `delta_id` is its own for good, `bullet` is what it is about.

    ADD has `section`, `text`, `lane` and `sources`; LINK has `other`. `why` is for people.
    """

    delta_id: str
    kind: DeltaKind
    bullet: str
    at_ms: int
    by: str = ""
    section: str = ""
    text: str = ""
    lane: TrustLane = TrustLane.WEB
    sources: tuple[ExperienceId, ...] = ()
    other: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bullet:
    """One thing that is known to work, or not to, in a class of tasks.

    `text` is empty where deltas about it came before the one that says it. `links` are others
    that say nearly the same. `writers` said it, `against` are the agents that it harmed.
    """

    bullet: str
    section: str = ""
    text: str = ""
    lane: TrustLane = TrustLane.WEB
    helpful: int = 0
    harmful: int = 0
    added_at_ms: int | None = None
    sources: frozenset[ExperienceId] = frozenset()
    links: frozenset[str] = frozenset()
    writers: frozenset[str] = frozenset()
    against: frozenset[str] = frozenset()
    is_retired: bool = False

    @property
    def is_shown(self) -> bool:
        """Tell whether it is there to be read."""
        return bool(self.text) and not self.is_retired

    @property
    def instructs(self) -> bool:
        """Tell whether it may be handed on as an instruction: an operator said or promoted it."""
        return self.lane is TrustLane.OPERATOR

    @property
    def worth(self) -> float:
        """Return what orders bullets: the share of helpful ones that is likely at the least."""
        good = self.helpful + _PRIOR_EACH
        return bounds_of(good, good + self.harmful + _PRIOR_EACH, z=1.0).low


@dataclass(frozen=True, slots=True, kw_only=True)
class Playbook:
    """The bullets of a class of tasks, by their ids; `applied` are the deltas that are in it."""

    bullets: Mapping[str, Bullet] = field(default_factory=dict)
    applied: frozenset[str] = frozenset()

    @property
    def shown(self) -> tuple[Bullet, ...]:
        """Return the bullets that are there to be read, the best first."""
        found = (one for one in self.bullets.values() if one.is_shown)
        return tuple(sorted(found, key=lambda one: (-one.worth, one.added_at_ms or 0, one.bullet)))


EMPTY = Playbook()


def normal(text: str) -> str:
    """Return a text as it is compared: one line, composed, no runs of spaces."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def bullet_id(section: str, text: str, lane: TrustLane) -> str:
    """Return the id of a bullet, which follows from what it says and whose word it is."""
    return f"blt_{_hash_of(normal(section).casefold(), normal(text).casefold(), lane.value)}"


def delta_id(kind: DeltaKind, bullet: str, *evidence: str) -> str:
    """Return the id of a delta that is made of this evidence, and of it only once."""
    return f"dlt_{_hash_of(kind.value, bullet, *evidence)}"


def adding(
    text: str,
    *,
    section: str,
    lane: TrustLane,
    at_ms: int,
    by: str,
    sources: tuple[ExperienceId, ...] = (),
    why: str = "",
) -> Delta:
    """Return the delta that adds a bullet; its text and section are cut to what one may have."""
    section, text = normal(section)[:SECTION_CHARS_MAX], normal(text)[:TEXT_CHARS_MAX]
    bullet = bullet_id(section, text, lane)
    return Delta(
        delta_id=delta_id(DeltaKind.ADD, bullet, by, *sources[:SOURCES_MAX]),
        kind=DeltaKind.ADD,
        bullet=bullet,
        at_ms=at_ms,
        by=by,
        section=section,
        text=text,
        lane=lane,
        sources=sources[:SOURCES_MAX],
        why=why,
    )


def voting(bullet: str, *, is_helpful: bool, by: str, at_ms: int, why: str = "") -> Delta:
    """Return the delta by which an agent says that a bullet helped or harmed it.

    However many sessions an agent has, in a day it has one vote of either kind on a bullet.
    """
    kind = DeltaKind.STRENGTHEN if is_helpful else DeltaKind.WEAKEN
    return Delta(
        delta_id=delta_id(kind, bullet, by, str(at_ms // _DAY_MS)),
        kind=kind,
        bullet=bullet,
        at_ms=at_ms,
        by=by,
        why=why,
    )


def linking(bullet: str, other: str, *, at_ms: int, by: str) -> Delta:
    """Return the delta that links two bullets; the same whichever is named first."""
    first, second = sorted((bullet, other))
    return Delta(
        delta_id=delta_id(DeltaKind.LINK, first, second),
        kind=DeltaKind.LINK,
        bullet=first,
        at_ms=at_ms,
        by=by,
        other=second,
    )


def retiring(bullet: str, *, at_ms: int, by: str, why: str) -> Delta:
    """Return the delta that takes a bullet out of what is read; it stays in the history."""
    return Delta(
        delta_id=delta_id(DeltaKind.RETIRE, bullet),
        kind=DeltaKind.RETIRE,
        bullet=bullet,
        at_ms=at_ms,
        by=by,
        why=why,
    )


def promoting(bullet: Bullet, *, at_ms: int, by: str) -> tuple[Delta, Delta]:
    """Return the deltas by which an operator takes a bullet over as its own word.

    Who calls this has made sure that an operator is asking.
    """
    anew = adding(
        bullet.text,
        section=bullet.section,
        lane=TrustLane.OPERATOR,
        at_ms=at_ms,
        by=by,
        sources=tuple(sorted(bullet.sources)),
        why=f"promoted {bullet.bullet}",
    )
    return anew, linking(anew.bullet, bullet.bullet, at_ms=at_ms, by=by)


def merged(playbook: Playbook, deltas: Iterable[Delta]) -> Playbook:
    """Return the playbook with the deltas in it; those that are in it already change nothing."""
    bullets, applied = dict(playbook.bullets), set(playbook.applied)
    for delta in deltas:
        if delta.delta_id in applied:
            continue
        applied.add(delta.delta_id)
        about = [delta.bullet, *([delta.other] if delta.kind is DeltaKind.LINK else ())]
        for name in about:
            before = bullets.get(name, Bullet(bullet=name))
            bullets[name] = _after(before, delta)
    return Playbook(bullets=bullets, applied=frozenset(applied))


def _after(bullet: Bullet, delta: Delta) -> Bullet:
    match delta.kind:
        case DeltaKind.ADD:
            return _said(bullet, delta)
        case DeltaKind.STRENGTHEN:
            return replace(bullet, helpful=bullet.helpful + 1)
        case DeltaKind.WEAKEN:
            against = bullet.against | {delta.by}
            return replace(bullet, harmful=bullet.harmful + 1, against=against)
        case DeltaKind.LINK:
            other = delta.other if bullet.bullet == delta.bullet else delta.bullet
            return replace(bullet, links=bullet.links | {other})
        case DeltaKind.RETIRE:
            return replace(bullet, is_retired=True)


def _said(bullet: Bullet, delta: Delta) -> Bullet:
    """Return the bullet as it was said first; spelt in two ways, the lower one stands."""
    at_ms = bullet.added_at_ms
    is_first = at_ms is None or (delta.at_ms, delta.section, delta.text) < (
        at_ms,
        bullet.section,
        bullet.text,
    )
    sources, writers = bullet.sources | frozenset(delta.sources), bullet.writers | {delta.by}
    if not is_first:
        return replace(bullet, sources=sources, writers=writers)
    return replace(
        bullet,
        section=delta.section,
        text=delta.text,
        lane=delta.lane,
        added_at_ms=delta.at_ms,
        sources=sources,
        writers=writers,
    )


def harmful_ones(playbook: Playbook, *, at_ms: int, by: str) -> tuple[Delta, ...]:
    """Return the deltas that retire what surely harms several agents more than it helps.

    What an operator said is only retired by an operator.
    """
    return tuple(
        retiring(one.bullet, at_ms=at_ms, by=by, why=f"helped {one.helpful}, harmed {one.harmful}")
        for one in playbook.shown
        if not one.instructs
        and len(one.against) >= _AGENTS_AGAINST_MIN
        and one.helpful + one.harmful >= _RETIRED_FROM
        and bounds_of(one.helpful, one.helpful + one.harmful).high < 0.5  # noqa: PLR2004 - even
    )


def without_source(playbook: Playbook, source: ExperienceId) -> frozenset[str]:
    """Return the bullets that nothing but this source stands for, which go with it."""
    return frozenset(
        name for name, one in playbook.bullets.items() if one.sources == frozenset({source})
    )


def _hash_of(*parts: str) -> str:
    digest = hashlib.blake2b(digest_size=_ID_BYTES)
    for part in parts:
        encoded = part.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return digest.hexdigest()
