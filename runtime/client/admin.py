"""An administrator at a sidecar: budgets, balances, sessions, calls and approvals."""

import httpx

from runtime.client import admin_requests as requests
from runtime.client.connection import (
    SECONDS_MAX,
    AsyncClosing,
    AsyncConnection,
    Closing,
    Connection,
)
from runtime.client.methods import awaits, awaits_pages, pages, waits


class AdminClient(Closing):
    """An administrator at a sidecar, for programs that wait.

    Every method raises `RefusedError` with the status of HTTP where it is refused, and
    `NotReachedError` where nobody answers.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str,
        timeout_s: float = SECONDS_MAX,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Take the administrators' listener and an administrator's token."""
        self._connection = Connection(
            base_url, token=token, timeout_s=timeout_s, transport=transport
        )

    budgets = pages(requests.budgets)
    budget = waits(requests.budget)
    make_budget = waits(requests.make_budget)
    change_budget = waits(requests.change_budget)
    retire_budget = waits(requests.retire_budget)
    balances = pages(requests.balances)
    sessions = pages(requests.sessions)
    session = waits(requests.session)
    freeze = waits(requests.freeze)
    resume = waits(requests.resume)
    kill = waits(requests.kill)
    calls = pages(requests.calls)
    approvals = pages(requests.approvals)
    approve = waits(requests.approve)
    reject = waits(requests.reject)


class AsyncAdminClient(AsyncClosing):
    """An administrator at a sidecar, for programs with a loop; as of `AdminClient`."""

    def __init__(
        self,
        base_url: str,
        *,
        token: str,
        timeout_s: float = SECONDS_MAX,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Take the administrators' listener and an administrator's token."""
        self._connection = AsyncConnection(
            base_url, token=token, timeout_s=timeout_s, transport=transport
        )

    budgets = awaits_pages(requests.budgets)
    budget = awaits(requests.budget)
    make_budget = awaits(requests.make_budget)
    change_budget = awaits(requests.change_budget)
    retire_budget = awaits(requests.retire_budget)
    balances = awaits_pages(requests.balances)
    sessions = awaits_pages(requests.sessions)
    session = awaits(requests.session)
    freeze = awaits(requests.freeze)
    resume = awaits(requests.resume)
    kill = awaits(requests.kill)
    calls = awaits_pages(requests.calls)
    approvals = awaits_pages(requests.approvals)
    approve = awaits(requests.approve)
    reject = awaits(requests.reject)
