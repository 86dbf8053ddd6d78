"""What can go wrong with a model call: the client's faults, then the provider's."""

from runtime.errors import ProviderError, RuntimeFaultError


class InvalidRequestError(RuntimeFaultError):
    """The request cannot be served as it is."""

    def __init__(self, message: str, *, param: str | None = None) -> None:
        """Keep the name of the field at fault for the answer."""
        super().__init__(message)
        self.param = param


class TokenizerError(RuntimeFaultError):
    """The tokenizer that a tier names cannot be used."""


class ProviderNotReachedError(ProviderError):
    """The model provider provably received nothing of the request."""


class ProviderTimedOutError(ProviderError):
    """The model provider did not answer in time."""


class ProviderFailedError(ProviderError):
    """The model provider failed after the request was sent to it."""


class UnfitProviderError(ProviderError):
    """The model provider cannot be reached as it was configured."""
