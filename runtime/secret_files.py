"""Secrets that stand in files, as container engines and systemd hand them over."""

from pathlib import Path

from runtime.errors import RuntimeFaultError

__all__ = ["SECRET_BYTES_MAX", "UnreadableSecretError", "secret_in"]

SECRET_BYTES_MAX = 64 * 1024


class UnreadableSecretError(RuntimeFaultError):
    """The file holds no secret that can be read; the message says why, never what stands in it."""


def secret_in(path: Path) -> str:
    """Return the secret in a file, without the line's end that editors leave.

    Raises:
        UnreadableSecretError: it cannot be read, is empty or longer than a secret can be.
    """
    try:
        with path.open("rb") as opened:
            content = opened.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise UnreadableSecretError(f"cannot be read: {error.strerror}") from error
    if len(content) > SECRET_BYTES_MAX:
        raise UnreadableSecretError(f"has more than {SECRET_BYTES_MAX} bytes, which is no secret")
    try:
        secret = content.decode().strip()
    except UnicodeDecodeError:
        # Without its cause, which has the whole content with it.
        raise UnreadableSecretError("cannot be read: it is not text") from None
    if not secret:
        raise UnreadableSecretError("is empty")
    return secret
