"""A guard: tools that are named do not run at night, and others not without a person.

```toml
[plugins]
enabled = ["quiet-hours"]

[plugins.settings.quiet-hours]
from = "22:00"
to = "06:00"
deny = ["shell_run"]
ask = ["mail__send"]
```
"""

import logging
from collections.abc import Mapping
from datetime import datetime, time
from typing import Any

from runtime.plugins import Allow, Ask, Deny, SeenCall, SeenResult, Verdict

logger = logging.getLogger(__name__)


class QuietHours:
    """Says no, or asks for a person, between two times of the day."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Take the times and the tools; what is wrong with them is told at the start."""
        self._begin = time.fromisoformat(settings["from"])
        self._end = time.fromisoformat(settings["to"])
        self._denied = frozenset(settings.get("deny", ()))
        self._asked = frozenset(settings.get("ask", ()))

    async def before(self, call: SeenCall) -> Verdict:
        """Return whether the call may run now."""
        if not self._is_quiet(datetime.now().astimezone().time()):
            return Allow()
        if call.tool in self._denied:
            return Deny(f"it is quiet until {self._end:%H:%M}; leave it for the morning")
        return Ask("it is night") if call.tool in self._asked else Allow()

    async def after(self, call: SeenCall, result: SeenResult) -> None:
        """Tell of what failed at night."""
        if result.is_error and self._is_quiet(datetime.now().astimezone().time()):
            logger.warning("at night %s failed for %s", call.tool, call.agent)

    def _is_quiet(self, now: time) -> bool:
        if self._begin <= self._end:
            return self._begin <= now < self._end
        return now >= self._begin or now < self._end
