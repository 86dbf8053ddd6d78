"""What the admin API answers about budgets, sessions, calls and approvals, as values."""

from typing import Any

from runtime.client.answers import Answer


class Budget(Answer):
    """How much of each unit may be used in one scope over one window; `window` is as in the file.

    `version` is what a change may be made conditional on.
    """

    id: str
    tenant: str
    scope: str
    subject: str | None
    limits: dict[str, int]
    window: Any
    kind: str
    burst: int | None = None
    match: dict[str, Any]
    mode: str
    overdraft: str
    warn_at_permille: tuple[int, ...] = ()
    version: int


class BudgetBalance(Answer):
    """How one unit of one budget stands for one subject in the present window."""

    budget_id: str
    tenant: str
    scope: str
    subject: str
    session_name: str | None = None
    unit: str
    limit: int
    used: int
    reserved: int
    overrun: int
    remaining: int
    resets_at_ms: int | None = None


class SessionKnown(Answer):
    """One run of an agent as administrators see it."""

    id: str
    tenant: str
    agent: str
    name: str
    opened_at_ms: int
    last_seen_at_ms: int
    closed_at_ms: int | None = None
    closed_by: str | None = None
    frozen_at_ms: int | None = None
    frozen_by: str | None = None


class SessionChanged(Answer):
    """A session after it was frozen, resumed or killed."""

    session: SessionKnown
    calls_stopped: int = 0
    commands_frozen: int = 0
    commands_resumed: int = 0


class Bill(Answer):
    """What a session was charged so far, and its calls by how they ended."""

    charged: dict[str, int]
    unified_cost_microusd: int
    calls: dict[str, int]
    calls_total: int
    memory_peak_bytes: int | None = None


class SessionWithBill(SessionKnown):
    """A session with its bill."""

    bill: Bill


class Call(Answer):
    """A call that ended; what is None is not known."""

    id: str
    kind: str
    name: str
    tenant: str
    agent: str
    session: str
    turn: str | None = None
    status: str
    denial: str | None = None
    detail: str
    started_at_ms: int
    ended_at_ms: int
    arguments: str | None = None
    backend: str
    rule: str | None = None
    charged: dict[str, int]
    unified_cost_microusd: int
    archive: str | None = None


class Approval(Answer):
    """One question to a person; `arguments` is what records keep of them."""

    id: str
    state: str
    call: str
    tenant: str
    agent: str
    session: str
    tool: str
    arguments: str
    rule: str
    held: dict[str, int]
    created_at_ms: int
    expires_at_ms: int
    decided_by: str | None = None
    reason: str = ""
