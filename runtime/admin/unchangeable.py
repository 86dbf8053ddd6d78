"""Members that a change may repeat but not alter."""

from runtime.failures import Fault, ProblemError, invalid


def refuse_other(name: str, given: str | None, actual: str) -> None:
    """Return if `given` was left out or repeats what stands.

    Raises:
        ProblemError: it is something else.
    """
    if given is not None and given != actual:
        raise ProblemError(invalid(Fault(field=name, detail=f"This is {actual} and stays so")))
