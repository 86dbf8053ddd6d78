"""What the memory answers, as values.

Parsing is lenient to what it does not know: a later sidecar may say more.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """An answer that cannot be changed; unknown members are passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Written(Answer):
    """What became of a write; `standing` is "quarantined" where it waits to be promoted.

    `is_new` is False where the same call had written the same before. `doubts` say why it waits.
    """

    index: str
    uri: str
    namespace: str
    kind: str
    lane: str
    standing: str
    address: str
    size_bytes: Annotated[int, Field(alias="bytes")]
    tokens: int
    summary: str
    is_new: bool
    doubts: tuple[str, ...] = ()


class Hit(Answer):
    """One experience that was found.

    `role` is "instruction" or "data": what is data is to be quoted to a model, never obeyed.
    `text` is whole where `is_whole`, else a summary; `tokens_whole` is what the whole takes.
    """

    index: str
    role: str
    lane: str
    kind: str
    text: str
    is_whole: bool
    tokens_whole: int
    learned_at_ms: int
    source: str = ""
    actor: str = ""
    standing: str = "active"
    relation: str = ""
    score: float | None = None


class LeftOut(Answer):
    """What else there is that did not fit: how many, of how many tokens, which come first."""

    count: int = 0
    tokens: int = 0
    indices: tuple[str, ...] = ()


class Found(Answer):
    """What was found, the best first; `rendered` is the text for a model, framed and labelled."""

    hits: tuple[Hit, ...]
    left_out: LeftOut = LeftOut()
    tokens: int = 0
    rendered: str = ""


class Around(Found):
    """An experience with its neighbours and sources; `relation` of each says which it is."""


class Instruction(Answer):
    """What an administrator or the user wants done, with the index of where it is said."""

    index: str
    text: str


class Workspace(Answer):
    """Where a session stands; `rendered` is the text for a model, framed and labelled.

    `rooms` are its parts by name, line by line; `contents` is the index of the list of everything
    that the session kept, where there is one.
    """

    instructions: tuple[Instruction, ...] = ()
    rooms: dict[str, tuple[str, ...]]
    contents: str | None = None
    left_out: LeftOut = LeftOut()
    rendered: str


class Listed(Answer):
    """One of the agent's own experiences, without a word of what stands in it."""

    index: str
    kind: str
    lane: str
    standing: str
    media_type: str
    size_bytes: Annotated[int, Field(alias="bytes")]
    tokens: int
    learned_at_ms: int


class NamespaceOpen(Answer):
    """A namespace that the agent may use; no `bytes_left` where it may not write.

    `rights` are "read" and "write", as far as it has them.
    """

    name: str
    rights: tuple[str, ...]
    items: int
    size_bytes: Annotated[int, Field(alias="bytes")]
    bytes_max: int | None
    bytes_left: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The bytes of an experience as they were written, and the receipt that proves it."""

    content: bytes
    media_type: str
    lane: str
    role: str
    total_bytes: int
    receipt: Mapping[str, Any]
