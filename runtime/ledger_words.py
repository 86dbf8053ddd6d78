"""The failures of the store's ledger in the words of those who use it."""

from contextlib import AbstractContextManager
from types import TracebackType

from governor.errors import InvalidTransitionError
from memory_store.errors import StoreError, StoreOverloadedError, UnknownReservationError
from tool_gateway.errors import HoldEndedError, LedgerOverloadedError, LedgerUnavailableError


class _LedgerWords:
    """Raises the store's failures anew; a generator would cost every call more than this."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Begin; there is nothing to keep."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Say a failure of the store, and leave all else as it is."""
        match error:
            case StoreOverloadedError():
                raise LedgerOverloadedError from error
            case InvalidTransitionError() | UnknownReservationError():
                raise HoldEndedError from error
            case StoreError():
                raise LedgerUnavailableError from error
            case _:
                """Somebody else's, or none."""


_LEDGER_WORDS = _LedgerWords()


def ledger_words() -> AbstractContextManager[None]:
    """Say the store's failures in the gateway's words."""
    return _LEDGER_WORDS
