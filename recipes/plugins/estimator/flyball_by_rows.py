"""An estimator: a query costs and takes time by the rows that it asks for.

```toml
[plugins]
enabled = ["by-rows"]

[plugins.settings.by-rows]
tools = ["warehouse__query"]
argument = "limit"
microusd_per_row = 2
ms_per_row = 1
```
"""

from collections.abc import Mapping
from typing import Any

from runtime.plugins import SeenCall


class ByRows:
    """Says what a call is expected to cost, from one of its arguments."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Take the tools, the argument and what a row costs."""
        self._tools = frozenset(settings["tools"])
        self._argument = str(settings["argument"])
        self._microusd = int(settings.get("microusd_per_row", 0))
        self._ms = int(settings.get("ms_per_row", 0))

    async def estimate(self, call: SeenCall, held: Mapping[str, int]) -> Mapping[str, int] | None:
        """Return the cost of the rows on top of the rule's price; None where it is not known."""
        rows = call.arguments.get(self._argument)
        if call.tool not in self._tools or not isinstance(rows, int) or rows < 0:
            return None
        price = held.get("cost_microusd", 0)
        expected = {"cost_microusd": price + rows * self._microusd}
        if self._ms:
            expected["wall_ms"] = max(1, rows * self._ms)
        return expected
