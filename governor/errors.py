"""The governor's errors: misuse by the code that calls it, never a state of a budget."""


class GovernorError(Exception):
    """The governor was used wrongly."""

    def __init__(self, message: str | None = None) -> None:
        """Take the class's docstring as the message when none is given."""
        super().__init__(message or type(self).__doc__)


class InvalidAmountError(GovernorError):
    """An amount must be an integer from 0 to 2**62."""


class InvalidBudgetError(GovernorError):
    """A budget needs at least one limit, a known scope and a window longer than zero."""


class InvalidTransitionError(GovernorError):
    """A reservation cannot make this transition from its present state."""


class InvalidPolicyError(GovernorError):
    """A policy rule contradicts itself."""


class InvalidScopeError(GovernorError):
    """A chain of sessions contains a cycle or is too deep."""


class InvalidPriceError(GovernorError):
    """A price is an integer of micro-dollars, stated once for each model."""


class InvalidEffortError(GovernorError):
    """An effort is 0, or a fraction of the usual from 0.1 to 4."""


class InvalidVectorsError(GovernorError):
    """A file of word vectors is not usable."""


class InvalidRankerError(GovernorError):
    """The weights of a ranker are not usable."""


class TooFewOutcomesError(GovernorError):
    """There are too few outcomes to learn from."""
