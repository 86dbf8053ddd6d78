"""The runtime's errors: what stops a command or a request, in words that say what to do."""

from collections.abc import Iterator


class RuntimeFaultError(Exception):
    """The sidecar cannot do what was asked."""

    def __init__(self, message: str | None = None) -> None:
        """Take the class's docstring as the message when none is given."""
        super().__init__(message or type(self).__doc__)


class ConfigError(RuntimeFaultError):
    """The configuration is not usable; each line names a key, its value and the fix."""


class ListenError(RuntimeFaultError):
    """The address cannot be listened on."""


class ProviderError(RuntimeFaultError):
    """The model provider failed."""


class PreviewsBusyError(RuntimeFaultError):
    """Others wait for a preview already; ask again in a moment."""


class NotBetterError(RuntimeFaultError):
    """A router model is put in force only if it is better than what is."""


class RouterModelError(RuntimeFaultError):
    """A router model is not usable."""


class MemoryStaysError(RuntimeFaultError):
    """An experience stays where it stands."""

    def __init__(self, index: str, refusal: str) -> None:
        """Keep why, by which one refusal is told from another."""
        super().__init__(f"{index} stays where it is: {_WHY_IT_STAYS.get(refusal, refusal)}")
        self.refusal = refusal


_WHY_IT_STAYS = {
    "over": "it was revoked or corrected; write what holds now",
    "already": "it stands there already",
    "for_an_operator": "only an administrator may promote it",
    "not_an_operator": "only an administrator may do that",
    "no_quorum": "too few agents have done well with it",
    "no_text": "its content is no text, so it can instruct nobody",
    "harmed": "an agent did badly with it",
}


def leaves_of(error: BaseException) -> Iterator[BaseException]:
    """Yield what a group of errors, or of groups, consists of; of any other error itself."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves_of(inner)
    else:
        yield error
