"""Earlier results that may answer a call again, bounded in bytes."""

import json
from collections import OrderedDict
from typing import Generic, TypeVar

from tool_gateway.job import Served
from tool_gateway.results import ToolResult

Key = TypeVar("Key")

# Beside its text a kept result holds its blocks, its names and the objects around them.
_RESULT_BYTES = 1_000


class KeptResults(Generic[Key]):
    """Results by key, with when they were kept; the oldest give way."""

    def __init__(self, *, bytes_max: int) -> None:
        """Start with none."""
        self._bytes_max = bytes_max
        self._kept: OrderedDict[Key, tuple[Served, int, int]] = OrderedDict()
        self.size_bytes = 0

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._kept)

    def keep(self, key: Key, served: Served, *, at_ms: int = 0) -> bool:
        """Keep a result; False where it alone is too large."""
        size_bytes = size_of(served.result)
        if size_bytes > self._bytes_max:
            return False
        self.drop(key)
        self._kept[key] = (served, size_bytes, at_ms)
        self.size_bytes += size_bytes
        while self.size_bytes > self._bytes_max:
            self.drop_oldest()
        return True

    def find(self, key: Key) -> tuple[Served, int] | None:
        """Return a result and when it was kept."""
        found = self._kept.get(key)
        return None if found is None else (found[0], found[2])

    def drop(self, key: Key) -> None:
        """Forget a result, if it is kept."""
        found = self._kept.pop(key, None)
        if found is not None:
            self.size_bytes -= found[1]

    def drop_oldest(self) -> None:
        """Forget the result that was kept first."""
        _, (_, freed, _) = self._kept.popitem(last=False)
        self.size_bytes -= freed


def size_of(result: ToolResult) -> int:
    """Return about how much memory a kept result takes."""
    texts = sum(
        len(str(block["text"])) if block.get("type") == "text" else len(_json(block))
        for block in result.content
    )
    structured = 0 if result.structured is None else len(_json(result.structured))
    return _RESULT_BYTES + texts + structured + len(_json(dict(result.meta)))


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
