"""A notifier: notices as lines of a file, each once.

```toml
[plugins]
enabled = ["journal"]

[plugins.settings.journal]
path = "/var/log/flyball-notices.jsonl"
```
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio


class Journal:
    """Appends notices to a file; what cannot be written is brought again later."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Take the path, and go on after the last line that is there."""
        self._path = Path(settings["path"])
        self._last = 0
        if self._path.exists():
            lines = self._path.read_text(encoding="utf-8").splitlines()
            self._last = max((json.loads(line)["seq"] for line in lines), default=0)

    async def notify(self, notices: Sequence[Mapping[str, Any]]) -> None:
        """Write what was not written yet: a notice may come twice."""
        fresh = [notice for notice in notices if notice["seq"] > self._last]
        if not fresh:
            return
        async with await anyio.open_file(self._path, "a", encoding="utf-8") as file:
            await file.writelines(json.dumps(notice) + "\n" for notice in fresh)
        self._last = fresh[-1]["seq"]
