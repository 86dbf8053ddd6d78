"""How many tokens a text takes of a context, estimated without any model's tokenizer."""

import re

# What is longer is counted by what its beginning shows: a text is much the same throughout.
_SAMPLED_CHARS = 16_384
# As byte-pair tokenizers cut: words with the mark before them, capitals and digits in short
# pieces, marks in runs. What is not ASCII is a token for each character.
_PIECE = re.compile(
    r"[ _]?[A-Za-z]?[a-z]{1,11}|[A-Z]{1,2}|[0-9]{1,3}| ?[!-/:-@[-`{-~]{1,3}|\s+|[^\x00-\x7f]"
)

# Between prose, of which a token is four characters, and JSON, of which it is three.
_TOKENS_PER_16_CHARS = 5


def tokens_of(text: str) -> int:
    """Return about how many tokens a text is; the same for the same text, never 0 for words.

    It is near for prose, and errs on the high side for JSON and identifiers.
    """
    sample = text[:_SAMPLED_CHARS]
    counted = sum(1 for _ in _PIECE.finditer(sample))
    if len(text) <= _SAMPLED_CHARS:
        return counted
    return -(-counted * len(text) // _SAMPLED_CHARS)


def tokens_about(text: str) -> int:
    """Return about how many tokens a text is, by its length alone: for what is sized often."""
    more = 0 if text.isascii() else len(text.encode("utf-8", "surrogatepass")) - len(text)
    return -(-_TOKENS_PER_16_CHARS * len(text) // 16) + -(-more // 2)
