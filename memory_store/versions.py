"""Versions: how a change says which state of a record it was made for."""

from memory_store.errors import VersionConflictError


def check_version(*, expected: int | None, actual: int) -> None:
    """Return if the change was made for the present state, or for any (None).

    Raises:
        VersionConflictError: somebody else changed the record in between.
    """
    if expected is not None and expected != actual:
        raise VersionConflictError(expected=expected, actual=actual)
