"""What upstreams say has changed, passed on to whoever listens."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum

# Resources that clients may watch at once, all together.
WATCHED_MAX = 10_000


class ChangeKind(StrEnum):
    """What changed."""

    TOOLS = "tools"
    PROMPTS = "prompts"
    RESOURCES = "resources"
    UPDATED = "updated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A list of an upstream that changed, or the resource at `uri`."""

    kind: ChangeKind
    uri: str = ""


Listener = Callable[[Change], None]


class Changes:
    """Passes each change on to every listener, none of which may wait."""

    def __init__(self) -> None:
        """Start with nobody listening."""
        self._listeners: dict[object, Listener] = {}

    def publish(self, change: Change) -> None:
        """Tell every listener."""
        for listener in list(self._listeners.values()):
            listener(change)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener` from now on, until what is returned is called."""
        token = object()
        self._listeners[token] = listener

        def unsubscribe() -> None:
            self._listeners.pop(token, None)

        return unsubscribe

    @contextmanager
    def heard_by(self, listener: Listener) -> Iterator[None]:
        """Tell `listener` while the block runs."""
        unsubscribe = self.subscribe(listener)
        try:
            yield
        finally:
            unsubscribe()


class Watches:
    """How many clients watch each resource: its upstream is told of the first and the last."""

    def __init__(self) -> None:
        """Start with none."""
        self._counts: Counter[str] = Counter()

    @property
    def is_full(self) -> bool:
        """Tell whether no further resource can be watched."""
        return len(self._counts) >= WATCHED_MAX

    async def add(self, uri: str, begin: Callable[[str], Awaitable[None]]) -> None:
        """Count a client in; `begin` is called for the first one, and may refuse by raising."""
        if self._counts[uri] == 0:
            await begin(uri)
        self._counts[uri] += 1

    async def remove(self, uri: str, end: Callable[[str], Awaitable[None]]) -> None:
        """Count a client out; `end` is called for the last one."""
        self._counts[uri] -= 1
        if self._counts[uri] <= 0:
            del self._counts[uri]
            await end(uri)
