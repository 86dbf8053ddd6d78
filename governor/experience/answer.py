"""What a reader is given of experiences: as much as fits, with the rest named."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from governor.experience.cases import sign_of
from governor.experience.experience import Experience
from governor.experience.kinds import ExperienceKind
from governor.experience.reading import Candidate, LeftOut, Reading, fitted
from governor.experience.rendering import Role, Shown, rendered
from governor.experience.tokens import tokens_of
from governor.ids import ExperienceId

# About what the lines around a text take: its mark, index, lane and labels.
_FRAME_TOKENS = 60
# What a text in JSON takes beyond itself is not foreseen exactly: then less is tried again.
_TRIES_MAX = 8
_SCORE_DIGITS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An experience that a reader may have: `whole` is None where its content is not to be shown.

    `relation` is how it belongs to what was asked for, where it was not found by a search.
    """

    experience: Experience
    brief: Shown
    whole: Shown | None = None
    score: float | None = None
    relation: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a reader gets: words for a model, the same for a program, and what both take."""

    text: str
    structured: dict[str, object]
    tokens: int
    indices: frozenset[ExperienceId] = frozenset()


def answered(
    findings: Sequence[Finding], *, tokens_max: int, key: bytes, unseen: int = 0, none_found: str
) -> Answer:
    """Return what fits of `findings`, the best first, into `tokens_max` tokens.

    `unseen` is how many more there are that are not among them. `key` is the secret that the
    frames around texts are marked with. `none_found` is said where there is nothing to show.
    What is left out is named where there is room for the names.
    """
    if not findings:
        return _none(unseen, none_found)
    answer = _fitting(findings, tokens_max=tokens_max, key=key, unseen=unseen)
    if answer.tokens > tokens_max:
        answer = _too_little(findings, unseen)
    return replace(answer, tokens=min(answer.tokens, tokens_max))


def _fitting(findings: Sequence[Finding], *, tokens_max: int, key: bytes, unseen: int) -> Answer:
    room = tokens_max
    for _ in range(_TRIES_MAX):
        reading = fitted(_candidates(findings), tokens_max=room, unseen=unseen)
        answer = _answer(findings, reading, key=key)
        if answer.tokens <= tokens_max or not (reading.whole or reading.brief):
            break
        room -= max(answer.tokens - tokens_max, _FRAME_TOKENS // 2)
    else:
        nothing = fitted(_candidates(findings), tokens_max=0, unseen=unseen)
        answer = _answer(findings, nothing, key=key)
    return answer


def _too_little(findings: Sequence[Finding], unseen: int) -> Answer:
    """Return the shortest answer there is: how many there are, and how much room one takes."""
    count = len(findings) + unseen
    first = _candidates(findings)[0]
    needed = min(first.brief_tokens, first.whole_tokens) + 2 * _FRAME_TOKENS
    tokens = sum(one.experience.tokens for one in findings)
    left_out = LeftOut(count=count, tokens=tokens)
    return Answer(
        text=f"[{count} left out. max_tokens {needed} may show the first.]",
        structured={"hits": [], "left_out": left_out.as_json(), "tokens": 0},
        tokens=2 * _FRAME_TOKENS,
    )


def _candidates(findings: Sequence[Finding]) -> list[Candidate]:
    found = []
    for one in findings:
        brief = tokens_of(one.brief.text) + _FRAME_TOKENS
        whole = _whole_tokens(one, brief - _FRAME_TOKENS)
        found.append(
            Candidate(
                index=one.experience.experience_id,
                whole_tokens=max(whole + _FRAME_TOKENS, brief if one.whole is None else 0),
                brief_tokens=brief,
            )
        )
    return found


def _whole_tokens(one: Finding, of_brief: int) -> int:
    """Return what the whole takes; what is short is its own summary, and was counted as that."""
    if one.whole is None:
        # A figure that no reader gives room for: of this there is only the summary.
        return max(one.experience.tokens, 2**31)
    return of_brief if one.whole.text == one.brief.text else tokens_of(one.whole.text)


def _none(unseen: int, none_found: str) -> Answer:
    left_out = LeftOut(count=unseen)
    structured: dict[str, object] = {"hits": [], "left_out": left_out.as_json(), "tokens": 0}
    return Answer(text=none_found, structured=structured, tokens=0)


def _answer(findings: Sequence[Finding], reading: Reading, *, key: bytes) -> Answer:
    left_out = _left_out(findings, reading)
    pieces, hits = [], []
    for one in findings:
        index = one.experience.experience_id
        is_whole = index in reading.whole and one.whole is not None
        if not is_whole and index not in reading.brief:
            continue
        piece = one.whole if is_whole and one.whole is not None else _in_brief(one)
        pieces.append(piece)
        hits.append(_hit(one, piece, is_whole=is_whole))
    structured: dict[str, object] = {"hits": hits, "left_out": left_out.as_json()}
    note = _note(len(hits), reading, left_out)
    text = "\n".join(filter(None, (rendered(pieces, key=key).text, note)))
    shown = json.dumps(structured, ensure_ascii=False)
    tokens = max(tokens_of(text), tokens_of(shown))
    return Answer(
        text=text,
        structured={**structured, "tokens": tokens},
        tokens=tokens,
        indices=reading.whole | reading.brief,
    )


def _left_out(findings: Sequence[Finding], reading: Reading) -> LeftOut:
    """Return what is left out, by the tokens that reading it would take."""
    shown = reading.whole | reading.brief
    tokens = sum(
        one.experience.tokens for one in findings if one.experience.experience_id not in shown
    )
    return replace(reading.left_out, tokens=tokens)


def _in_brief(one: Finding) -> Shown:
    labels = (*one.brief.labels, ("shown", f"summary of {one.experience.tokens} tokens"))
    return replace(one.brief, labels=labels)


def _hit(one: Finding, piece: Shown, *, is_whole: bool) -> dict[str, object]:
    kept = one.experience
    hit: dict[str, object] = {
        "index": kept.experience_id,
        "role": "instruction" if piece.role is Role.INSTRUCTION else "data",
        "lane": kept.lane.value,
        "kind": kept.kind.value,
        "source": kept.provenance.source,
        "actor": kept.actor,
        "learned_at_ms": kept.learned_at_ms,
        "text": piece.text,
        "is_whole": is_whole,
        "tokens_whole": kept.tokens,
        "standing": None if kept.standing.value == "active" else kept.standing.value,
        "valid_until_ms": kept.valid_until_ms,
        "outcome": _outcome_of(kept),
        "relation": one.relation,
        "score": None if one.score is None else round(one.score, _SCORE_DIGITS),
    }
    return {name: value for name, value in hit.items() if value not in (None, "")}


def _outcome_of(kept: Experience) -> str | None:
    """Return how a case went, None of anything else."""
    return sign_of(kept.outcome).value if kept.kind is ExperienceKind.CASE else None


def _note(shown: int, reading: Reading, left_out: LeftOut) -> str:
    parts = []
    if reading.brief:
        parts.append(f"{len(reading.brief)} of {shown} in summary")
    if left_out.count:
        names = f": {', '.join(left_out.indices)}" if left_out.indices else ""
        size = f" (about {left_out.tokens} tokens)" if left_out.tokens else ""
        parts.append(f"{left_out.count} left out{size}{names}")
    if not parts:
        return ""
    return f'[{"; ".join(parts)}. memory_read {{"index": …}} shows one whole.]'
