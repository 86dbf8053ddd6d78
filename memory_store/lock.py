"""The lock that gives one sidecar a state directory to itself."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_store.errors import StateDirectoryBusyError, StoreUnavailableError

LOCK_NAME = "lock"


@contextmanager
def exclusive(state_dir: Path) -> Iterator[None]:
    """Hold the lock of `state_dir`; the kernel frees it however this process ends.

    Raises:
        StateDirectoryBusyError: another process, or another store of this one, holds it.
        StoreUnavailableError: the directory cannot be written.
    """
    path = state_dir / LOCK_NAME
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        message = f"the state directory {state_dir} cannot be written"
        raise StoreUnavailableError(message) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            message = (
                f"the state directory {state_dir} is in use by another sidecar (pid {holder}); "
                "stop it, or give this one a directory of its own"
            )
            raise StateDirectoryBusyError(message) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        # The file stays when we leave: unlinking it would let two sidecars lock two
        # different files of the same name.
        yield
    finally:
        os.close(descriptor)
