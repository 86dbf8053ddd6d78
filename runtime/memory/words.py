"""What goes wrong in the store, in the words that the memory's tools have for it."""

from collections.abc import Iterator
from contextlib import contextmanager

from memory_store.errors import (
    AlreadyExistsError,
    ExperienceCorruptError,
    ExperienceNotFoundError,
    ExperienceQuotaError,
    ExperienceRevokedError,
    ExperienceSupersededError,
    ExperienceTooLargeError,
    InvalidCursorError,
    InvalidExperienceError,
    NamespaceNotFoundError,
    SearchTooWideError,
    StoreOverloadedError,
    StoreUnavailableError,
    UnstorableError,
)
from tool_gateway.errors import (
    ExperienceDamagedError,
    ExperienceMissError,
    MemoryRefusedError,
    MemoryUnavailableError,
)

_REFUSED = (
    AlreadyExistsError,
    ExperienceQuotaError,
    ExperienceRevokedError,
    ExperienceSupersededError,
    ExperienceTooLargeError,
    InvalidCursorError,
    InvalidExperienceError,
    SearchTooWideError,
    UnstorableError,
)


@contextmanager
def memory_words() -> Iterator[None]:
    """Raise the memory's errors in place of the store's while the block runs.

    Raises:
        ExperienceMissError: there is no such experience, or it is another's.
        ExperienceDamagedError: it is not what was written.
        MemoryRefusedError: it cannot be kept like this.
        MemoryUnavailableError: the store does not answer.
    """
    try:
        yield
    except (ExperienceNotFoundError, NamespaceNotFoundError) as error:
        raise ExperienceMissError from error
    except ExperienceCorruptError as error:
        raise ExperienceDamagedError from error
    except _REFUSED as error:
        raise MemoryRefusedError(str(error)) from error
    except (StoreUnavailableError, StoreOverloadedError) as error:
        raise MemoryUnavailableError from error
