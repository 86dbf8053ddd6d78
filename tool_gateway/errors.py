"""The gateway's errors, split into ours and theirs."""

from collections.abc import Mapping


class GatewayError(Exception):
    """The gateway could not do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        """Take the class's docstring as the message when none is given."""
        super().__init__(message or type(self).__doc__)


class UnknownToolError(GatewayError):
    """No tool of that name is exposed; tools/list names those that are."""


class UnknownSessionError(GatewayError):
    """There is no such session."""


class UnknownOfferError(GatewayError):
    """No upstream that can be reached offers this; list what there is."""


class OfferDeniedError(GatewayError):
    """The governor refuses to have this asked; `denial` is what a tool's result would carry."""

    def __init__(self, denial: Mapping[str, object]) -> None:
        """Take the denial as the wire has it; its remedy is the message."""
        remedy = denial.get("remedy")
        super().__init__(str(remedy["text"]) if isinstance(remedy, Mapping) else None)
        self.denial = denial


class CallerLimitError(GatewayError):
    """The caller holds as much of this open as it may."""


class StaleStateError(GatewayError):
    """This requestState is unknown or has expired; send the request again without it."""


class IdempotencyConflictError(GatewayError):
    """This idempotency key was used before with another payload; send a new key."""


class InvalidContextError(GatewayError):
    """A session, turn or idempotency value is not a short printable string."""


class CatalogError(GatewayError):
    """The upstreams' tools cannot be exposed together under distinct names."""


class LedgerUnavailableError(GatewayError):
    """The ledger cannot be reached, so nothing is admitted."""


class LedgerOverloadedError(GatewayError):
    """The ledger's queue is full; try again shortly."""


class HoldEndedError(GatewayError):
    """The hold was ended before, by time or by another; it is not ended twice."""


class SubSessionRefusedError(GatewayError):
    """There is no such sub-session, or it cannot be opened as asked."""


class ArchiveMissError(GatewayError):
    """No archived result of that index is yours to read."""


class ArchiveDamagedError(GatewayError):
    """The archived result no longer matches its hash and is not handed out."""


class ExperienceMissError(GatewayError):
    """No experience of that index is yours to read."""


class ExperienceDamagedError(GatewayError):
    """The experience no longer is what was written and is not handed out."""


class MemoryRefusedError(GatewayError):
    """The memory does not do this for you."""


class MemoryUnavailableError(GatewayError):
    """The memory cannot be reached now; try again."""


class UpstreamError(GatewayError):
    """An upstream did not do its part."""


class UpstreamNotReachedError(UpstreamError):
    """The upstream provably received nothing of the call."""


class UpstreamDownError(UpstreamNotReachedError):
    """The upstream is not there, so it provably received nothing of the call."""


class UpstreamRefusedError(UpstreamDownError):
    """The upstream takes no connection at this moment, so nothing of the call was sent."""


class EgressDeniedError(UpstreamNotReachedError):
    """The server's address is one that connections may not go to."""


class UpstreamFailedError(UpstreamError):
    """The upstream failed after the call was sent to it."""


class UpstreamLostError(UpstreamFailedError):
    """No whole answer came from the upstream, which may have done what it was asked."""


class UpstreamLateError(UpstreamLostError):
    """The upstream's answer was not complete in time."""


class UpstreamSaidError(UpstreamFailedError):
    """The upstream answered with an error of the protocol."""

    def __init__(self, message: str, *, code: int, words: str, data: object = None) -> None:
        """Take the error as the wire has it: `code`, `words` and `data` are for the client."""
        super().__init__(message)
        self.code = code
        self.words = words
        self.data = data


class ArchiveUnavailableError(GatewayError):
    """The archive cannot take a result now."""
