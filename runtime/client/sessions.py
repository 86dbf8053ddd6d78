"""An agent's sessions, their budgets and what became of them, by both kinds of client."""

from runtime.client import session_requests as requests
from runtime.client.connection import AsyncConnection, Connection
from runtime.client.methods import awaits, awaits_in_session, waits, waits_in_session


class Sessions:
    """An agent's sessions, for programs that wait; without a name, the client's own.

    Every method raises `RefusedError` where there is no such session, which has its first call
    still before it, and `NotReachedError` where nobody answers.
    """

    def __init__(self, connection: Connection) -> None:
        """Take the sidecar, the token and the session."""
        self._connection = connection

    read = waits_in_session(requests.read)
    budgets = waits_in_session(requests.budgets)
    spawn = waits_in_session(requests.spawn)
    close = waits_in_session(requests.close)
    say_task = waits_in_session(requests.say_task)
    say_outcome = waits_in_session(requests.say_outcome)
    say_worth = waits(requests.say_worth)


class AsyncSessions:
    """An agent's sessions, for programs with a loop; all else is as of `Sessions`."""

    def __init__(self, connection: AsyncConnection) -> None:
        """Take the sidecar, the token and the session."""
        self._connection = connection

    read = awaits_in_session(requests.read)
    budgets = awaits_in_session(requests.budgets)
    spawn = awaits_in_session(requests.spawn)
    close = awaits_in_session(requests.close)
    say_task = awaits_in_session(requests.say_task)
    say_outcome = awaits_in_session(requests.say_outcome)
    say_worth = awaits(requests.say_worth)
