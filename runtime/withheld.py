"""Secrets that this process was given, so that nothing that it writes down repeats them."""

from tool_gateway.redaction import redact_text

HIDDEN = "[redacted]"
# A shorter one may be a word of anything.
_CHARS_MIN = 8
_HELD_MAX = 10_000
# What is looked at beyond the end of a text, so that no secret is cut before it is known for one.
_BEYOND_CHARS = 8_192
_held: set[str] = set()


def withhold(secret: str) -> str:
    """Return the secret, which no line of the log shows from now on; nor a part such as a token."""
    for part in {secret, *secret.split()}:
        if len(part) >= _CHARS_MIN and len(_held) < _HELD_MAX:
            _held.add(part)
    return secret


def without_secrets(text: str) -> str:
    """Return a text without those that it quotes."""
    # Other threads may add to what is held; of two that begin alike the longer one goes first.
    quoted = [secret for secret in tuple(_held) if secret in text]
    for secret in sorted(quoted, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    return text


def fit_to_tell(text: str, *, chars_max: int) -> str:
    """Return the beginning of a text without secrets, be they given or only look like some."""
    return redact_text(without_secrets(text[: chars_max + _BEYOND_CHARS]))[:chars_max]
