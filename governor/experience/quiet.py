"""What is worked out for the memory in quiet hours, and when an answer made then still holds.

An answer is made of sentences of what was found, each with the index that it is from. It holds as
long as none of its sources was withdrawn or corrected, and nothing new speaks of the same things.
"""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from governor.experience.experience import Experience
from governor.experience.kinds import Standing, TrustLane, least_trusted
from governor.experience.passages import overlap, sentences_for
from governor.experience.tokens import tokens_of
from governor.ids import ExperienceId, NamespaceId, TenantId

PREPARED = "prepared"
CASES_MIN = 3
SOURCES_MAX = 8
# So much of its words two texts have in common that say the same.
_TWIN_FROM = 0.8
_ALIKE_FROM = 0.4
_COMPARED_MAX = 400
_SHARED_WORDS = 2
_HASH_BYTES = 16
_LESSON_CHARS = 300

WordsOf = Callable[[str], tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An experience with its text, as an answer is made of it."""

    experience: Experience
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A text that was made of experiences, and of which; it stands in the worst of their lanes."""

    text: str
    lane: TrustLane
    sources: tuple[ExperienceId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """What several cases of one class have in common; `outcome` is theirs on average."""

    made: Made
    outcome: float


def question_of(
    words: Iterable[str], *, namespaces: Sequence[NamespaceId], filters: str, most: int
) -> str:
    """Return the name of a question: the same for the same words, asked of the same things."""
    digest = hashlib.blake2b(digest_size=_HASH_BYTES)
    for part in (*sorted(set(words)), "", *sorted(namespaces), filters, str(most)):
        encoded = part.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return digest.hexdigest()


def answer_from(
    question: Sequence[str], found: Sequence[Source], *, tokens_max: int, words_of: WordsOf
) -> Made | None:
    """Return the sentences that say most about a question; None of nothing.

    Each source has its share of the room, the best first; what it leaves is the next one's.
    """
    lines: list[str] = []
    used: list[Experience] = []
    left = tokens_max
    sources = [one for one in found if one.text.strip()][:SOURCES_MAX]
    for place, one in enumerate(sources):
        head = f"[{one.experience.experience_id}] "
        room = left // (len(sources) - place) - tokens_of(head)
        if room <= 0:
            break
        line = head + " ".join(sentences_for(one.text, question, words_of, tokens_max=room).split())
        lines.append(line)
        used.append(one.experience)
        left -= tokens_of(line) + 1
    if not lines:
        return None
    return Made(
        text="\n".join(lines),
        lane=least_trusted(tuple(one.lane for one in used)),
        sources=tuple(one.experience_id for one in used),
    )


def speaks_of(question: Iterable[str], words: Iterable[str]) -> bool:
    """Tell whether something new may change the answer to a question: it shares its words."""
    asked = frozenset(question)
    return len(asked & frozenset(words)) >= min(_SHARED_WORDS, len(asked))


def twins_in(
    items: Sequence[tuple[ExperienceId, Sequence[str]]],
) -> tuple[tuple[ExperienceId, ExperienceId], ...]:
    """Return the pairs that say nearly the same, the earlier one of each first."""
    found: list[tuple[ExperienceId, ExperienceId]] = []
    cut = [(name, frozenset(words)) for name, words in items[:_COMPARED_MAX]]
    for place, (later, words) in enumerate(cut):
        for earlier, others in cut[:place]:
            if words and overlap(words, others) >= _TWIN_FROM:
                found.append((earlier, later))
                break
    return tuple(found)


def lessons_in(cases: Sequence[Source], *, words_of: WordsOf) -> tuple[Lesson, ...]:
    """Return what three cases or more that are alike and ended alike teach together.

    The words are those of the one that has most in common with the others.
    """
    pool = [
        (one, frozenset(words_of(one.text)))
        for one in cases[:_COMPARED_MAX]
        if one.experience.outcome is not None and one.experience.standing is Standing.ACTIVE
    ]
    lessons: list[Lesson] = []
    while pool:
        first, words = pool[0]
        group = [
            (one, others)
            for one, others in pool
            if _went_well(one) == _went_well(first) and overlap(words, others) >= _ALIKE_FROM
        ] or [pool[0]]
        taken = {one.experience.experience_id for one, _ in group}
        taken.add(first.experience.experience_id)
        pool = [each for each in pool if each[0].experience.experience_id not in taken]
        if len(group) >= CASES_MIN:
            lessons.append(_lesson(group))
    return tuple(lessons)


def lesson_name(tenant: TenantId, made: Made) -> ExperienceId:
    """Return the id of what was made of these sources, so that it is made once."""
    digest = hashlib.blake2b(digest_size=_HASH_BYTES)
    for part in (tenant, made.text, *sorted(made.sources)):
        encoded = part.encode(errors="surrogatepass")
        digest.update(len(encoded).to_bytes(8, "big"))
        digest.update(encoded)
    return ExperienceId(f"exp_{digest.hexdigest()}")


def _lesson(group: Sequence[tuple[Source, frozenset[str]]]) -> Lesson:
    def shared(place: int) -> float:
        return sum(overlap(group[place][1], others) for _, others in group)

    middle = max(range(len(group)), key=lambda place: (shared(place), -place))
    outcomes = [one.experience.outcome or 0.0 for one, _ in group]
    word = "went well" if _went_well(group[middle][0]) else "went wrong"
    said = " ".join(group[middle][0].text.split())[:_LESSON_CHARS]
    return Lesson(
        made=Made(
            text=f"{len(group)} cases like this one {word}: {said}",
            lane=least_trusted(tuple(one.experience.lane for one, _ in group)),
            sources=tuple(one.experience.experience_id for one, _ in group),
        ),
        outcome=sum(outcomes) / len(outcomes),
    )


def _went_well(one: Source) -> bool:
    return (one.experience.outcome or 0.0) >= 0.5  # noqa: PLR2004 - half
