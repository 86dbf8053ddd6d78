"""How many tokens a text takes of a context, estimated without any model's tokenizer."""

import re
from zlib import crc32

# What is longer is counted by samples from all of it. Where they lie is told by its own hash,
# so that nobody writes a text whose samples are shorter than the rest.
_COUNTED_CHARS = 65_536
_WINDOWS, _WINDOW_CHARS = 64, 1_024
# As byte-pair tokenizers cut: words with the mark before them, capitals and digits in short
# pieces, marks and spaces in short runs. What is not ASCII is a token for each character.
_PIECE = re.compile(
    r"[ _]?[A-Za-z]?[a-z]{1,11}|[A-Z]{1,2}|[0-9]{1,3}| ?[!-/:-@[-`{-~]{1,3}|\s{1,16}"
    r"|[^\x00-\x7f]|[\x00-\x7f]"
)

# What is no text is counted as if each token were so many of its bytes.
BYTES_PER_TOKEN = 3
# Between prose, of which a token is four characters, and JSON, of which it is three.
_TOKENS_PER_16_CHARS = 5


def tokens_of(text: str) -> int:
    """Return about how many tokens a text is; the same for the same text, never 0 for words.

    It is near for prose, and errs on the high side for JSON and identifiers.
    """
    if len(text) <= _COUNTED_CHARS:
        return _counted(text)
    room = len(text) // _WINDOWS - _WINDOW_CHARS + 1
    first = crc32(text.encode("utf-8", "surrogatepass")) % room
    begins = (first + at * len(text) // _WINDOWS for at in range(_WINDOWS))
    counted = sum(_counted(text[begin : begin + _WINDOW_CHARS]) for begin in begins)
    return -(-counted * len(text) // (_WINDOWS * _WINDOW_CHARS))


def tokens_of_bytes(content: bytes) -> int:
    """Return about how many tokens bytes are: those of their text, else one for each three."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return -(-len(content) // BYTES_PER_TOKEN)
    return tokens_of(text)


def beginning_of(text: str, tokens_max: int) -> str:
    """Return the beginning of a text that is no more than so many tokens; they are all counted."""
    for number, piece in enumerate(_PIECE.finditer(text)):
        if number >= tokens_max:
            return text[: piece.start()]
    return text


def _counted(text: str) -> int:
    return len(_PIECE.findall(text))


def tokens_about(text: str) -> int:
    """Return about how many tokens a text is, by its length alone: for what is sized often."""
    more = 0 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) - len(text)
    return -(-_TOKENS_PER_16_CHARS * len(text) // 16) + -(-more // 2)
