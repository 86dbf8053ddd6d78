"""Answers of upstreams that may be given again, for as long and to whom they say."""

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from governor.ids import PrincipalId, SessionId, UpstreamName
from tool_gateway.changes import Change, ChangeKind
from tool_gateway.results import Json

ENTRIES_MAX = 2_000
BYTES_MAX = 32 * 1024 * 1024
TTL_MS_MAX = 60 * 60 * 1000
# What makes an answer one of a kind: it belongs to one exchange of questions and answers.
_OF_ONE_EXCHANGE = ("requestState", "inputResponses")
_METHODS_OF = {
    ChangeKind.TOOLS: ("tools/list",),
    ChangeKind.PROMPTS: ("prompts/list",),
    ChangeKind.RESOURCES: ("resources/list", "resources/templates/list"),
    ChangeKind.UPDATED: ("resources/read",),
}


# An agent in one of its sessions: an upstream may keep something for each.
Asker = tuple[PrincipalId, SessionId | None]


@dataclass(frozen=True, slots=True)
class _Key:
    """A question to an upstream; an answer of nobody's is everybody's."""

    upstream: UpstreamName
    method: str
    params: str
    asker: Asker | None


@dataclass(frozen=True, slots=True)
class _Kept:
    answer: Json
    until_ms: int
    size_bytes: int


class AnswerCache:
    """Keeps what upstreams let be kept (`ttlMs`), shared only where they say so (`cacheScope`).

    An answer that is not public is given again in the session that it was given to, nowhere else.
    """

    def __init__(self, elapsed_ms: Callable[[], int]) -> None:
        """Start empty; `elapsed_ms` is a monotonic clock."""
        self._elapsed_ms = elapsed_ms
        self._kept: OrderedDict[_Key, _Kept] = OrderedDict()
        self._bytes = 0

    def find(self, upstream: UpstreamName, method: str, params: Json, asker: Asker) -> Json | None:
        """Return an answer that is still good, with the time that it has left."""
        for whose in (None, asker):
            key = _Key(upstream, method, _canonical(params), whose)
            kept = self._kept.get(key)
            if kept is None:
                continue
            left_ms = kept.until_ms - self._elapsed_ms()
            if left_ms > 0:
                self._kept.move_to_end(key)
                return {**kept.answer, "ttlMs": left_ms}
            self._drop(key)
        return None

    def keep(
        self, upstream: UpstreamName, method: str, params: Json, asker: Asker, answer: Json
    ) -> None:
        """Keep an answer for as long as it says, if it does."""
        ttl_ms = answer.get("ttlMs")
        is_whole = answer.get("resultType", "complete") == "complete"
        if type(ttl_ms) is not int or ttl_ms <= 0 or not is_whole:
            return
        if any(name in params for name in _OF_ONE_EXCHANGE):
            return
        whose = None if answer.get("cacheScope") == "public" else asker
        key = _Key(upstream, method, _canonical(params), whose)
        self._drop(key)
        size = len(json.dumps(answer, default=str))
        until_ms = self._elapsed_ms() + min(ttl_ms, TTL_MS_MAX)
        self._kept[key] = _Kept(answer, until_ms, size)
        self._bytes += size
        while len(self._kept) > ENTRIES_MAX or self._bytes > BYTES_MAX:
            self._drop(next(iter(self._kept)))

    def forget(self, change: Change) -> None:
        """Keep nothing that a change makes untrue."""
        methods = _METHODS_OF[change.kind]
        uri = None if change.kind is not ChangeKind.UPDATED else change.uri
        for key in list(self._kept):
            if key.method in methods and (uri is None or json.loads(key.params).get("uri") == uri):
                self._drop(key)

    def forget_upstream(self, upstream: UpstreamName) -> None:
        """Keep nothing that an upstream has answered."""
        for key in [key for key in self._kept if key.upstream == upstream]:
            self._drop(key)

    def _drop(self, key: _Key) -> None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._bytes -= kept.size_bytes


def _canonical(params: Json) -> str:
    return json.dumps(params, sort_keys=True, separators=(",", ":"), default=str)
