"""What guards and estimators from outside of the house are asked about a call, and see of it."""

from typing import Protocol

from governor.denial import Denied
from tool_gateway.job import Job
from tool_gateway.results import ToolResult


class Outside(Protocol):
    """Whoever an operator lets look at calls; what fails of it is contained there."""

    async def checked(self, job: Job) -> Job | Denied:
        """Return the job as it may run: with a question to a person, with other amounts held.

        Else why it may not.
        """
        ...

    async def saw(self, job: Job, result: ToolResult) -> None:
        """Show what a call ended in; nothing that comes of it changes that."""
        ...
