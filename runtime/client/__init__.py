"""The client library: an agent's sessions, budgets and memory, and an administrator's budgets.

```python
with Flyball("http://127.0.0.1:8700", token=token, session="migration") as flyball:
    left = flyball.sessions.read().left("cost_microusd")
    kept = flyball.memory.write("The staging database is read only on Mondays.", kind="fact")
    found = flyball.memory.search("When can I write to staging?", max_tokens=500)
    flyball.sessions.say_outcome(success=True)
```

`AsyncFlyball` says the same with `await`; `AdminClient` is an administrator's.
"""

from runtime.client.admin import AdminClient, AsyncAdminClient
from runtime.client.admin_answers import (
    Approval,
    Bill,
    Budget,
    BudgetBalance,
    Call,
    SessionChanged,
    SessionKnown,
    SessionWithBill,
)
from runtime.client.agent import AsyncFlyball, Flyball
from runtime.client.answers import (
    Around,
    Content,
    Found,
    Hit,
    Instruction,
    LeftOut,
    Listed,
    NamespaceOpen,
    Workspace,
    Written,
)
from runtime.client.errors import ClientError, DeniedError, NotReachedError, RefusedError
from runtime.client.memory import AsyncMemory, AsyncMemoryClient, Memory, MemoryClient
from runtime.client.session_answers import (
    Balance,
    CallOutcome,
    Closed,
    Session,
    SessionOutcome,
    Source,
    Spawned,
    TaskSaid,
)
from runtime.client.sessions import AsyncSessions, Sessions

__all__ = [
    "AdminClient",
    "Approval",
    "Around",
    "AsyncAdminClient",
    "AsyncFlyball",
    "AsyncMemory",
    "AsyncMemoryClient",
    "AsyncSessions",
    "Balance",
    "Bill",
    "Budget",
    "BudgetBalance",
    "Call",
    "CallOutcome",
    "ClientError",
    "Closed",
    "Content",
    "DeniedError",
    "Flyball",
    "Found",
    "Hit",
    "Instruction",
    "LeftOut",
    "Listed",
    "Memory",
    "MemoryClient",
    "NamespaceOpen",
    "NotReachedError",
    "RefusedError",
    "Session",
    "SessionChanged",
    "SessionKnown",
    "SessionOutcome",
    "SessionWithBill",
    "Sessions",
    "Source",
    "Spawned",
    "TaskSaid",
    "Workspace",
    "Written",
]
