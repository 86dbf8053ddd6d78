"""What gives way in a conversation, ready to be kept, and the conversation without it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import msgspec

from governor.experience.keepsake import LIST_MEDIA_TYPE, Keepsake, index_of
from governor.experience.kinds import ExperienceKind
from governor.experience.piece import Piece, PieceKind
from governor.experience.tokens import tokens_about
from governor.experience.trust import Way
from governor.ids import ExperienceId, SessionId, TenantId
from runtime.model_gateway.compaction.contents import JSON, replaced, with_contents, with_more
from runtime.model_gateway.compaction.conversation import (
    Conversation,
    Message,
    Result,
    pieces_of,
)
from runtime.model_gateway.compaction.plan import Plan
from runtime.model_gateway.compaction.terms import CompactionTerms
from runtime.model_gateway.compaction.told import Told

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whose conversation it is; `key` is a secret of the house, for the marks of what is quoted."""

    tenant: TenantId
    session: SessionId
    key: bytes

    def index(self, content: bytes) -> ExperienceId:
        """Return the index under which a content of the conversation is kept."""
        return index_of(content, tenant=self.tenant, session=self.session)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folding:
    """What is to be kept before anything gives way; `contents` is the list of what is folded."""

    results: Mapping[tuple[int, int], Keepsake]
    folded: tuple[Keepsake, ...]
    contents: ExperienceId | None

    @property
    def keepsakes(self) -> tuple[Keepsake, ...]:
        """Return all that is to be kept, each content once."""
        every = (*self.results.values(), *self.folded)
        return tuple({one.index: one for one in every}.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortened:
    """A conversation in which old things gave way, and what did."""

    messages: list[dict[str, Any]]
    results: int
    turns: int
    tokens_saved: int
    left_whole: int


def folding_of(messages: Messages, conversation: Conversation, plan: Plan, owner: Owner) -> Folding:
    """Return what gives way by a plan, as it is to be kept."""
    read = conversation.messages
    results = {
        (place, number): _of_result(read[place].results[number], owner)
        for place, number in plan.results
    }
    folded: list[Keepsake] = []
    before: ExperienceId | None = None
    for first, end in pairwise((0, *plan.borders)):
        places = [place for place in plan.folded if first <= read[place].turn < end]
        if places:
            folded += _of_places(read, places, owner)
            listed = _list_of(messages, read, places, owner, before=before)
            folded.append(listed)
            before = listed.index
    return Folding(results=results, folded=tuple(folded), contents=before)


def shortened(
    messages: Messages,
    conversation: Conversation,
    plan: Plan,
    folding: Folding,
    *,
    kept: Collection[ExperienceId],
    terms: CompactionTerms,
    owner: Owner,
    told: Told,
) -> Shortened:
    """Return the conversation in which what was `kept` gave way, and nothing else."""
    read = conversation.messages
    may_fold = bool(folding.folded) and all(one.index in kept for one in folding.folded)
    gone = frozenset(plan.folded) if may_fold else frozenset[int]()
    marks = {
        at: told.mark(read[at[0]].results[at[1]], keepsake.index, terms)
        for at, keepsake in folding.results.items()
        if keepsake.index in kept
    }
    short = [
        _with_marks(message, read[place], place, marks)
        for place, message in enumerate(messages)
        if place not in gone
    ]
    saved = sum(read[place].tokens for place in gone) + sum(
        read[place].results[number].tokens - tokens_about(mark)
        for (place, number), mark in marks.items()
    )
    if gone:
        report = told.report(
            partial(_pieces, read, gone, owner),
            contents=folding.contents,
            terms=terms,
            key=owner.key,
        )
        saved -= tokens_about(report)
        _put(short, report)
    return Shortened(
        messages=short,
        results=len(marks),
        turns=len({read[place].turn for place in gone}),
        tokens_saved=saved,
        left_whole=len(folding.results) - len(marks) + len(plan.folded) - len(gone),
    )


def _with_marks(
    message: Mapping[str, Any],
    read: Message,
    place: int,
    marks: Mapping[tuple[int, int], str],
) -> dict[str, Any]:
    """Return a message with the marks that stand in the place of its results."""
    contents = {
        result.block: replaced(_content(message, result), marks[place, number])
        for number, result in enumerate(read.results)
        if (place, number) in marks
    }
    return with_contents(message, contents)


def _put(told: list[dict[str, Any]], report: str) -> None:
    """Put a report to the last words of the opening: a message of its own is not always allowed."""
    place = 0
    opening = -1
    while place < len(told) and told[place].get("role") != "assistant":
        opening = place if told[place].get("role") == "user" else opening
        place += 1
    if opening < 0:
        told.insert(place, {"role": "user", "content": report})
        return
    message = told[opening]
    told[opening] = {**message, "content": with_more(message.get("content"), report)}


def _pieces(read: Sequence[Message], gone: Collection[int], owner: Owner) -> Iterator[Piece]:
    """Yield the pieces of what is folded, with where they are kept."""
    for place in sorted(gone):
        message = read[place]
        results = iter(message.results)
        for piece in pieces_of([message]):
            kept = message.content
            if piece.kind is PieceKind.RESULT:
                kept = next(results).content
            elif message.results:
                kept = None
            yield piece if kept is None else replace(piece, index=owner.index(kept))


def _content(message: Mapping[str, Any], result: Result) -> object:
    if result.block is None:
        return message.get("content")
    return message["content"][result.block].get("content")


def _of_result(result: Result, owner: Owner) -> Keepsake:
    assert result.content is not None, "what cannot be written does not give way"
    return Keepsake(
        index=owner.index(result.content),
        kind=ExperienceKind.TOOL_RESULT,
        way=Way.RESULT,
        content=result.content,
        media_type=result.media_type,
        name=result.name,
        text=result.text,
    )


def _of_places(read: Sequence[Message], places: Sequence[int], owner: Owner) -> Iterator[Keepsake]:
    """Yield each result, and each message that holds none, as they are kept."""
    for place in places:
        message = read[place]
        yield from (_of_result(result, owner) for result in message.results)
        if not message.results:
            assert message.content is not None, "what cannot be written is not folded"
            yield Keepsake(
                index=owner.index(message.content),
                kind=ExperienceKind.OBSERVATION,
                # Whatever stands in it: it is the agent's client that wrote the conversation.
                way=Way.AGENT,
                content=message.content,
                media_type=JSON,
                name=message.part.value,
                text=message.text or _asked(message),
            )


def _asked(message: Message) -> str:
    return "; ".join(f"{one.name} {one.arguments}" for one in message.asked)


def _list_of(
    messages: Messages,
    read: Sequence[Message],
    places: Sequence[int],
    owner: Owner,
    *,
    before: ExperienceId | None,
) -> Keepsake:
    """Return the list of what was folded between two borders, out of which it can be put back."""
    entries = [_entry(messages[place], read[place], owner) for place in places]
    turns = sorted({read[place].turn for place in places})
    content = msgspec.json.encode({"before": before, "turns": turns, "messages": entries})
    return Keepsake(
        index=owner.index(content),
        kind=ExperienceKind.OBSERVATION,
        way=Way.HOUSE,
        content=content,
        media_type=LIST_MEDIA_TYPE,
        name="turns",
        text=f"turns {turns[0]} to {turns[-1]} of a conversation, message by message",
    )


def _entry(message: Mapping[str, Any], read: Message, owner: Owner) -> Mapping[str, object]:
    if not read.results:
        assert read.content is not None, "what cannot be written is not folded"
        return {"index": owner.index(read.content)}
    frame = with_contents(message, {result.block: None for result in read.results})
    return {
        "frame": frame,
        "results": [
            {
                "block": result.block,
                "index": owner.index(result.content or b""),
                "media_type": result.media_type,
            }
            for result in read.results
        ],
    }
