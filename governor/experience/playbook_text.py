"""A playbook as a model reads it, within so many tokens, and what in it says nearly the same."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from governor.experience.playbook import Bullet, Delta, Playbook, linking
from governor.experience.rendering import Role, Shown
from governor.experience.trust import is_as_trusted

# Bullets compared with a new one: the best, for two texts are compared word by word.
_COMPARED_MAX = 500
_SAME_FROM = 0.75
_WORDS_MIN = 3
_LINE_TOKENS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPlaybook:
    """What of a playbook fits: instructions of operators, then evidence of everybody else.

    `left_out` are the ids that did not fit, the
    best first; `linked` counts bullets for which one that says nearly the same is shown.
    """

    instructions: tuple[Bullet, ...] = ()
    evidence: tuple[Bullet, ...] = ()
    tokens: int = 0
    left_out: tuple[str, ...] = ()
    linked: int = 0


def line_of(bullet: Bullet) -> str:
    """Return the line of a bullet, with what became of those who followed it."""
    section = f"{bullet.section}: " if bullet.section else ""
    return f"[{bullet.bullet}] (+{bullet.helpful}/-{bullet.harmful}) {section}{bullet.text}"


def pieces_of(shown: ShownPlaybook) -> tuple[Shown, ...]:
    """Return the bullets as they are put before a model: quoted, unless an operator said them."""
    return tuple(
        Shown(
            index=one.bullet,
            role=Role.INSTRUCTION if one.instructs else Role.DATA,
            lane=one.lane,
            text=f"{one.section}: {one.text}" if one.section else one.text,
            labels=(("helped", str(one.helpful)), ("harmed", str(one.harmful))),
        )
        for one in (*shown.instructions, *shown.evidence)
    )


def shown_within(
    playbook: Playbook, *, tokens_max: int, tokens_of: Callable[[str], int]
) -> ShownPlaybook:
    """Return the best bullets that fit, without those for which a shown one stands."""
    instructions: list[Bullet] = []
    evidence: list[Bullet] = []
    left_out: list[str] = []
    tokens = linked = 0
    told: set[str] = set()
    # What an operator said comes first, and so its copy stands for what it promoted.
    for bullet in sorted(playbook.shown, key=lambda one: not one.instructs):
        if bullet.bullet in told:
            linked += 1
            continue
        price = tokens_of(line_of(bullet)) + _LINE_TOKENS
        if tokens + price > tokens_max:
            left_out.append(bullet.bullet)
            continue
        tokens += price
        told |= _stood_for(playbook, bullet)
        (instructions if bullet.instructs else evidence).append(bullet)
    return ShownPlaybook(
        instructions=tuple(instructions),
        evidence=tuple(evidence),
        tokens=tokens,
        left_out=tuple(left_out),
        linked=linked,
    )


def _stood_for(playbook: Playbook, bullet: Bullet) -> set[str]:
    """Return the bullets that need not be shown beside one that says nearly the same.

    A near copy with one word turned must not hide the first: only who said both hides one by the
    other, in a lane that is trusted as much, and never by way of a third. An operator's stands
    for all that it is linked to.
    """
    linked = (playbook.bullets.get(name) for name in bullet.links)
    return {
        one.bullet
        for one in linked
        if one is not None
        and (
            bullet.instructs
            or (one.writers <= bullet.writers and is_as_trusted(bullet.lane, one.lane))
        )
    }


def near_duplicates(
    playbook: Playbook,
    added: Sequence[Bullet],
    *,
    words_of: Callable[[str], Sequence[str]],
    at_ms: int,
    by: str,
) -> tuple[Delta, ...]:
    """Return the deltas that link each added bullet to those that say nearly the same."""
    words = {
        one.bullet: frozenset(words_of(one.text)) for one in playbook.shown[:_COMPARED_MAX]
    } | {one.bullet: frozenset(words_of(one.text)) for one in added}
    found: dict[str, Delta] = {}
    for bullet in added:
        own = words[bullet.bullet]
        for other, theirs in words.items():
            if other != bullet.bullet and _is_same(own, theirs):
                delta = linking(bullet.bullet, other, at_ms=at_ms, by=by)
                found[delta.delta_id] = delta
    return tuple(found.values())


def _is_same(one: frozenset[str], other: frozenset[str]) -> bool:
    if min(len(one), len(other)) < _WORDS_MIN:
        return one == other
    return len(one & other) / len(one | other) >= _SAME_FROM
