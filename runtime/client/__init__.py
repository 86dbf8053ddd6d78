"""The client library: an agent's own memory, from its own program.

```python
with MemoryClient("http://127.0.0.1:8700", token=token, session="migration") as memory:
    kept = memory.write("The staging database is read only on Mondays.", kind="fact")
    found = memory.search("When can I write to staging?", max_tokens=500)
    whole = memory.content(kept.index)
```
"""

from runtime.client.answers import (
    Around,
    Content,
    Found,
    Hit,
    Instruction,
    LeftOut,
    Listed,
    Workspace,
    Written,
)
from runtime.client.errors import ClientError, DeniedError, NotReachedError, RefusedError
from runtime.client.memory import AsyncMemoryClient, MemoryClient

__all__ = [
    "Around",
    "AsyncMemoryClient",
    "ClientError",
    "Content",
    "DeniedError",
    "Found",
    "Hit",
    "Instruction",
    "LeftOut",
    "Listed",
    "MemoryClient",
    "NotReachedError",
    "RefusedError",
    "Workspace",
    "Written",
]
