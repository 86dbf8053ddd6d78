"""A conversation as it is compacted, whatever wire it came by."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from governor.experience.gist import gist_of
from governor.experience.kinds import TrustLane
from governor.experience.piece import Piece, PieceKind
from governor.experience.tokens import tokens_about

_ARGUMENTS_CHARS_MAX = 160
_FAILURE_CHARS_MAX = 80
# What a template puts around a message.
_TOKENS_PER_MESSAGE = 4
# What is not read as text takes fewer tokens than its bytes would.
_BYTES_PER_TOKEN_BESIDE = 16


class Part(StrEnum):
    """Whose part of a conversation a message is."""

    INSTRUCTIONS = "instructions"
    USER = "user"
    AGENT = "agent"
    RESULTS = "results"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a tool answered, where it stands in a message.

    `block` is its place among the blocks of the message, None where the message is the result.
    `content` are the bytes that stand for it whole, None where it has to stay as it is. `text`
    is what is read of it.
    """

    block: int | None
    call: str
    name: str
    content: bytes | None
    media_type: str
    text: str
    is_failed: bool = False

    @property
    def tokens(self) -> int:
        """Return about how many tokens it takes; a picture takes some part of its bytes."""
        beside = 0 if self.content is None else len(self.content) // _BYTES_PER_TOKEN_BESIDE
        return max(tokens_about(self.text), beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A call of a tool, as the agent asked for it; `arguments` is JSON."""

    call: str
    name: str
    arguments: str

    @property
    def tokens(self) -> int:
        """Return about how many tokens it takes."""
        return tokens_about(self.name) + tokens_about(self.arguments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message: what was said in it, which tools were asked, what they answered.

    `content` are the bytes that stand for it whole, None where it cannot be written.
    """

    part: Part
    turn: int
    text: str
    content: bytes | None
    asked: tuple[Asked, ...] = ()
    results: tuple[Result, ...] = ()

    @property
    def tokens(self) -> int:
        """Return about how many tokens it takes."""
        return (
            _TOKENS_PER_MESSAGE
            + tokens_about(self.text)
            + sum(asked.tokens for asked in self.asked)
            + sum(result.tokens for result in self.results)
        )

    @property
    def can_be_kept(self) -> bool:
        """Tell whether it can be written whole, with each of its results."""
        return self.content is not None and all(one.content is not None for one in self.results)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The messages in their order; turn 0 is what stands before the agent's first."""

    messages: tuple[Message, ...]

    @property
    def turns(self) -> int:
        """Return how many turns there were; each begins with a message of the agent's."""
        return self.messages[-1].turn if self.messages else 0


def pieces_of(messages: Sequence[Message]) -> Iterator[Piece]:
    """Yield the pieces of messages, in their order; instructions are none."""
    for message in messages:
        if message.part is Part.INSTRUCTIONS:
            continue
        if message.text:
            yield _said(message)
        for asked in message.asked:
            arguments = gist_of(asked.arguments, chars_max=_ARGUMENTS_CHARS_MAX)
            text = f"{asked.name}({arguments})"
            yield Piece(
                kind=PieceKind.CALL,
                turn=message.turn,
                text=text,
                tokens=asked.tokens,
                lane=TrustLane.AGENT,
                name=asked.name,
                call=asked.call,
            )
        for result in message.results:
            yield piece_of(result, turn=message.turn)


def piece_of(result: Result, *, turn: int) -> Piece:
    """Return the piece that a result is."""
    failure = gist_of(result.text, chars_max=_FAILURE_CHARS_MAX) if result.is_failed else ""
    return Piece(
        kind=PieceKind.RESULT,
        turn=turn,
        text=result.text,
        tokens=result.tokens,
        lane=TrustLane.TOOL,
        name=result.name,
        call=result.call,
        failure=failure,
    )


def _said(message: Message) -> Piece:
    is_agents = message.part is Part.AGENT
    kind = PieceKind.AGENT if is_agents else PieceKind.USER
    return Piece(
        kind=PieceKind.TASK if message.turn == 0 else kind,
        turn=message.turn,
        text=message.text,
        tokens=tokens_about(message.text),
        lane=TrustLane.AGENT if is_agents else TrustLane.USER,
    )
