"""The lock that gives one sidecar a state directory to itself."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from memory_store.errors import StateDirectoryBusyError, StoreUnavailableError

LOCK_NAME = "lock"


def holder_of(state_dir: Path) -> str | None:
    """Return the process id of the sidecar that has `state_dir`; None if there is none.

    It takes the lock for an instant where nobody has it.
    """
    try:
        descriptor = os.open(state_dir / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _told_by(descriptor)
    else:
        return None
    finally:
        os.close(descriptor)


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
            holder = _told_by(descriptor)
            message = (
                f"the state directory {state_dir} is in use by another sidecar (pid {holder}); "
                "stop it, or name another state directory"
            )
            raise StateDirectoryBusyError(message) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        # The file stays when we leave: unlinking it would let two sidecars lock two
        # different files of the same name.
        yield
    finally:
        os.close(descriptor)


def _told_by(descriptor: int) -> str:
    return os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
