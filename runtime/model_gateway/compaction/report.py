"""The words that stand in the place of what gave way."""

from collections.abc import Iterable

from governor.experience.gist import gist_of
from governor.experience.kinds import TrustLane
from governor.experience.piece import Piece
from governor.experience.rendering import Role, Shown, rendered
from governor.experience.workspace import (
    PARTS,
    READ_TOOL,
    Room,
    Workspace,
    WorkspaceTerms,
    shown_rooms,
    workspace_of,
)
from governor.ids import ExperienceId
from runtime.model_gateway.compaction.conversation import Result
from runtime.model_gateway.compaction.terms import CompactionTerms


def mark_of(result: Result, index: ExperienceId, terms: CompactionTerms) -> str:
    """Return what stands in the place of a result: the same words for the same result."""
    said = gist_of(result.text, chars_max=terms.summary_chars_max)
    summary = said or f"no text, {len(result.content or b'')} bytes"
    return (
        f"[flyball: result kept as {index}; {result.tokens} tokens; summary: {summary}; "
        f"read it with {READ_TOOL}]"
    )


def report_of(
    pieces: Iterable[Piece], *, contents: ExperienceId | None, terms: CompactionTerms, key: bytes
) -> str:
    """Return the report that stands for whole turns.

    It stands in the user's message, so it is the user's words that it repeats there. Of what
    tools answered it has names and numbers alone, quoted as data: `key` makes the mark of that.
    """
    told = tuple(pieces)
    stands_for = sum(piece.tokens for piece in told)
    workspace = workspace_of(
        told,
        WorkspaceTerms(
            max_tokens=min(terms.report_tokens_max, stands_for // PARTS),
            last_turns=0,
            gist_chars_max=terms.summary_chars_max,
            quotes_results=False,
            contents=contents,
        ),
    )
    rooms = dict(workspace.rooms)
    said = [line.text for line in rooms.pop(Room.SAID, ())]
    data = "\n".join(shown_rooms(rooms))
    parts = [_head(workspace)]
    if said:
        parts += ["The user said in these turns:", *said]
    if data:
        parts.append(fenced(data, key=key))
    return "\n".join(parts)


def fenced(data: str, *, key: bytes) -> str:
    """Return what is quoted of a conversation between marks that nobody in it can know."""
    quoted = Shown(index="turns", role=Role.DATA, lane=TrustLane.WEB, text=data)
    return rendered((quoted,), key=key).text


def _head(workspace: Workspace) -> str:
    where = "" if workspace.contents is None else f" The list of all is {workspace.contents}."
    return (
        f"[flyball: {workspace.turns} earlier turns of this conversation, "
        f"{workspace.stands_for_tokens} tokens, are kept word for word. "
        f"Read any index with {READ_TOOL}.{where}]"
    )
