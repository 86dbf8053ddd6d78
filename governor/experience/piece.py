"""A piece of a session: something said, asked of a tool, or answered by one."""

from dataclasses import dataclass
from enum import StrEnum

from governor.experience.kinds import TrustLane
from governor.ids import ExperienceId


class PieceKind(StrEnum):
    """What a piece is: the task, what users and agents said, calls and results, notes."""

    TASK = "task"
    USER = "user"
    AGENT = "agent"
    CALL = "call"
    RESULT = "result"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One piece, in the turn that it belongs to.

    `index` is where its content is kept, None where it is not. `name` is the tool's. `call` is
    what a call and its result have in common. `failure` is why a call failed, "" where it did not.
    `tokens` is what it takes where it stands whole.
    """

    kind: PieceKind
    turn: int
    text: str
    tokens: int
    lane: TrustLane
    index: ExperienceId | None = None
    name: str = ""
    call: str = ""
    failure: str = ""
    is_pinned: bool = False
