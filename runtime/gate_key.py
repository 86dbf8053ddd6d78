"""The key that signs the challenges of gates, made once in a state directory."""

import os
import secrets
from pathlib import Path

from runtime.errors import RuntimeFaultError

KEY_BYTES = 32
KEY_NAME = "gate.key"


def gate_key(state_dir: Path) -> bytes:
    """Return the key of a state directory, which only its owner can read.

    Raises:
        RuntimeFaultError: it cannot be made or read, or is not a key.
    """
    path = state_dir / KEY_NAME
    try:
        try:
            made = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            key = path.read_bytes()
        else:
            key = secrets.token_bytes(KEY_BYTES)
            with os.fdopen(made, "wb") as file:
                file.write(key)
    except OSError as error:
        raise RuntimeFaultError(f"{path}: {error.strerror}") from error
    if len(key) != KEY_BYTES:
        raise RuntimeFaultError(f"{path} is not a key of {KEY_BYTES} bytes; remove it to make one")
    return key
