"""What the client raises, by what its caller can do about it."""

from collections.abc import Mapping


class ClientError(Exception):
    """The sidecar did not do what was asked."""


class NotReachedError(ClientError):
    """No sidecar answers, or what answers is none; start one with `flyball up`."""


class RefusedError(ClientError):
    """The request was understood and refused; `status` is that of HTTP."""

    def __init__(self, message: str, *, status: int) -> None:
        """Keep the status, by which one refusal is told from another."""
        super().__init__(message)
        self.status = status


class DeniedError(RefusedError):
    """A budget or a rule does not allow it; `denial` has its reason, figures and remedy.

    `retry_after_s` is when it may be asked for again, None where time alone changes nothing.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        denial: Mapping[str, object],
        retry_after_s: int | None,
    ) -> None:
        """Keep what a program decides by."""
        super().__init__(message, status=status)
        self.denial = denial
        self.retry_after_s = retry_after_s
