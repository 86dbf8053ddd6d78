"""How many output tokens an answer can stand for at the most, and at the least."""

from typing import Any

from runtime.model_gateway.counting.tokenizer import TOKEN_BYTES_MAX, Tokenizer
from runtime.model_gateway.measured import Produced
from runtime.model_gateway.model_request import Payload

# Markers that no answer shows: of a role, a channel, where reasoning begins and ends, the end
# of the text, a space that is dropped before its first word, half a character after its last.
_HIDDEN_PER_CHOICE = 48
# The same around the name and the arguments of a tool, and a number that a model may write.
_HIDDEN_PER_CALL = 64
# Servers that read the arguments of a tool and write them anew drop breaks and indents, and
# show in two bytes or four what a model wrote as an escape of six or twelve.
_ARGUMENTS_FACTOR = 3
# Text is counted in pieces of this many characters while it is written.
_PIECE_CHARS = 2_048
# A word that such a cut divides is more tokens than it was.
_TOKENS_PER_CUT = 8
NO_END = 2**62
_STOPS = ("stop", "stop_sequences")


def tokens_bound(produced: Produced, payload: Payload) -> int:
    """Return what an answer cannot be more than, hidden reasoning aside."""
    choices = max(1, payload.request.choices)
    return (
        produced.text_bytes
        + (_ARGUMENTS_FACTOR - 1) * produced.arguments_bytes
        + _HIDDEN_PER_CALL * produced.calls
        + (_HIDDEN_PER_CHOICE + _stop_bytes(payload.request.fields)) * choices
    )


def tokens_floor(produced: Produced) -> int:
    """Return what an answer cannot be less than, whatever wrote it."""
    return -(-produced.text_bytes // TOKEN_BYTES_MAX)


def tokens_counted(produced: Produced, tokenizer: Tokenizer) -> int:
    """Return the tokens of an answer as `tokenizer` counts them, each part for itself."""
    assert produced.pieces is not None, "the text is kept where a tokenizer is to count it"
    return sum(tokenizer.count("".join(pieces)) for pieces in produced.pieces.values())


def tokens_counted_min(produced: Produced, tokenizer: Tokenizer, *, enough: int = NO_END) -> int:
    """Return tokens that were provably written, without counting a long text over and over.

    What was counted is put together, so that a stream costs as much as its text is long. Above
    `enough` nothing more is counted.
    """
    assert produced.pieces is not None, "the text is kept where a tokenizer is to count it"
    found = 0
    for part, pieces in produced.pieces.items():
        tail = "".join(pieces)
        pieces[:] = [tail]
        counted_chars, counted = produced.counted.get(part, (0, 0))
        while len(tail) - counted_chars > _PIECE_CHARS and found + counted <= enough:
            piece = tail[counted_chars : counted_chars + _PIECE_CHARS]
            counted += max(0, tokenizer.count_min(piece) - _TOKENS_PER_CUT)
            counted_chars += _PIECE_CHARS
        produced.counted[part] = (counted_chars, counted)
        found += counted
        if found > enough:
            return found
        rest = tokenizer.count_min(tail[counted_chars:])
        found += max(0, rest - _TOKENS_PER_CUT) if counted_chars else rest
    return found


def _stop_bytes(fields: dict[str, Any]) -> int:
    """Return the bytes of the longest sequence that ends an answer and is not shown."""
    longest = 0
    for name in _STOPS:
        stops = fields.get(name)
        for stop in [stops] if isinstance(stops, str) else stops if isinstance(stops, list) else ():
            if isinstance(stop, str):
                longest = max(longest, len(stop.encode(errors="surrogatepass")))
    return longest
