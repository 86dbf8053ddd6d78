"""Everything that can go wrong in the store; a denial is a value and is not here."""

from governor.amounts import Unit


class StoreError(Exception):
    """The store could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        """Take the class's docstring as the message when none is given."""
        super().__init__(message or type(self).__doc__)


class StoreUnavailableError(StoreError):
    """The database did not store this; nothing of it can be relied on."""


class UnstorableError(StoreError):
    """A value cannot be stored: it is text that no UTF-8 holds, or above 64 bits."""

    def __init__(self, *, names: tuple[str, ...] = ()) -> None:
        """Name which, where that is known; never the value."""
        named = f"a value cannot be stored: {', '.join(names)}" if names else None
        super().__init__(named)
        self.names = names


class LedgerBreachError(StoreUnavailableError):
    """The books do not add up; nothing is admitted until somebody has looked."""


class StoreOverloadedError(StoreError):
    """More writes are waiting than the store takes; nothing was stored, try again later."""


class SchemaMismatchError(StoreError):
    """The database was made by another version of Flyball."""


class StateDirectoryBusyError(StoreError):
    """Another sidecar uses this state directory."""


class BackupError(StoreError):
    """The backup cannot be made, read or put back."""


class NotFoundError(StoreError):
    """There is no such thing."""


class UnknownReservationError(NotFoundError):
    """There is no such reservation."""


class ArchiveNotFoundError(NotFoundError):
    """There is no such archive entry for this agent."""


class AlreadyExistsError(StoreError):
    """The id is taken; ids are not used twice."""


class VersionConflictError(StoreError):
    """The record was changed since it was read."""

    def __init__(self, *, expected: int, actual: int) -> None:
        """Keep both versions for the one who answers."""
        super().__init__(f"version {expected} was expected, the record is at version {actual}")
        self.expected = expected
        self.actual = actual


class AboveQuotaError(StoreError):
    """A budget cannot promise more than the tenant's quota."""

    def __init__(self, *, unit: Unit, limit: int, quota: int) -> None:
        """Keep the figures for the one who answers."""
        super().__init__(f"{unit}: a limit of {limit} is above the tenant's quota of {quota}")
        self.unit = unit
        self.limit = limit
        self.quota = quota


class NotABudgetError(StoreError):
    """A quota is written with put_quota and cannot be created, put or deleted as a budget."""


class TokenEndedError(StoreError):
    """The token is revoked or has expired and cannot be rotated; issue a new one."""


class SessionEndedError(StoreError):
    """The session was ended; there is nothing left of it to freeze."""


class SessionOwnerError(StoreError):
    """The session belongs to another agent."""


class ArchiveTooLargeError(StoreError):
    """The content is larger than one archive entry, or the tenant's archive, may be."""


class ArchiveCorruptError(StoreError):
    """The archived file is missing or is not what was stored."""


class InvalidCursorError(StoreError):
    """The cursor was not made by this listing."""


class ExperienceNotFoundError(NotFoundError):
    """There is no such experience."""


class NamespaceNotFoundError(NotFoundError):
    """There is no such namespace."""


class ExperienceCorruptError(StoreError):
    """What is kept of the experience is not what was written; restore it from a backup."""


class ExperienceTooLargeError(StoreError):
    """The content is larger than one experience may be; write it in parts."""


class ExperienceQuotaError(StoreError):
    """There is no room left for this; erase some of what is kept or have the limit raised."""


class ExperienceSupersededError(StoreError):
    """The experience was corrected already; correct the correction."""


class ExperienceRevokedError(StoreError):
    """What this is made of was revoked, so this is not kept either."""


class InvalidExperienceError(StoreError):
    """The experience contradicts itself."""


class SearchTooWideError(StoreError):
    """Fewer namespaces may be searched at once."""

    def __init__(self, *, asked: int, most: int) -> None:
        """Take how many were asked for and how many may be."""
        super().__init__(f"{asked} namespaces are too many for one search; name at most {most}")
