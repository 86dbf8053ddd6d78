"""Secrets that this process was given, so that nothing that it writes down repeats them."""

HIDDEN = "[redacted]"
# A shorter one may be a word of anything.
_CHARS_MIN = 8
_HELD_MAX = 10_000
_held: set[str] = set()


def withhold(secret: str) -> str:
    """Return the secret, which no line of the log shows from now on; nor a part such as a token."""
    for part in {secret, *secret.split()}:
        if len(part) >= _CHARS_MIN and len(_held) < _HELD_MAX:
            _held.add(part)
    return secret


def without_secrets(text: str) -> str:
    """Return a text without those that it quotes."""
    for secret in _held:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    return text
