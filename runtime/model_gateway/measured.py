"""The tokens of a model call, and who says so."""

from dataclasses import dataclass, field
from enum import StrEnum


class UsageSource(StrEnum):
    """Who counted the tokens of a call; a bound is never below what was used."""

    PROVIDER = "provider"
    TOKENIZER = "tokenizer"
    BOUND = "bound"
    HELD = "held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The tokens of a call.

    Of `input_tokens`, `cached_tokens` were read from the provider's cache and
    `cache_write_tokens` were written to it, `cache_write_1h_tokens` of these to be kept for an
    hour. Hidden reasoning is a part of `output_tokens`. `doubt` says what of the provider's
    report was not believed, or hardly; "" where nothing was.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    source: UsageSource = UsageSource.PROVIDER
    doubt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmeasured:
    """Nobody knows the tokens of a call: what was held for them is charged."""

    why: str


Metered = Measured | Unmeasured
NEVER_MEASURED = Unmeasured(why="the call ended before it was measured")
NOTHING_GENERATED = Measured(input_tokens=0, output_tokens=0)


def doubt_of(tokens: Metered) -> str:
    """Return what a record says of the count of its tokens, "" where nothing is to be said."""
    return tokens.doubt if isinstance(tokens, Measured) else tokens.why


def source_of(tokens: Metered) -> UsageSource:
    """Return who counted the tokens of a call."""
    return tokens.source if isinstance(tokens, Measured) else UsageSource.HELD


@dataclass(slots=True)
class Produced:
    """What a model has written so far: text, arguments of tools, reasoning that is shown.

    Of `text_bytes`, `arguments_bytes` are those of tools' arguments, which a server may have
    rewritten, for `calls` calls. `hides` tells that it was seen to reason, and that what is shown
    of that may be a summary. `pieces` is None unless a tokenizer is to count the text: what was
    written under the name of each part, in order.
    """

    text_bytes: int = 0
    arguments_bytes: int = 0
    calls: int = 0
    hides: bool = False
    pieces: dict[str, list[str]] | None = field(default=None, repr=False)
    # How many characters of a part were counted while it was written, and to how many tokens.
    counted: dict[str, tuple[int, int]] = field(default_factory=dict, repr=False)
    # Up to so many bytes it cannot have reached the ceiling that it was compared with last.
    looks_above_bytes: int = 0

    def note(self, part: str, text: str) -> None:
        """Take more of a part, such as "0.content": it is counted apart from all others."""
        self.text_bytes += len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))
        if self.pieces is not None:
            self.pieces.setdefault(part, []).append(text)

    def note_arguments(self, part: str, text: str) -> None:
        """Take more of the arguments of a tool, or with "" that one is called."""
        before = self.text_bytes
        self.note(part, text)
        self.arguments_bytes += self.text_bytes - before
