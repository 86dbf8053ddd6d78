"""The sessions of the older era, bounded in number: of whoever has most, the oldest gives way.

Clients that go away without a word leave their sessions behind, some fifty kilobytes each, until
they have rested for half an hour. Whoever comes back to one that gave way is told that it is
gone, as after that half an hour, and opens another.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tool_gateway.identity import LEGACY_SESSION_HEADER
from tool_gateway.telemetry import count_failure

KEPT_MAX = 4_096
_SESSION_ID = LEGACY_SESSION_HEADER.encode()


@dataclass(slots=True)
class _Lasting:
    """One session: whose it is, and how many of its requests are under way."""

    user: Any
    owner: Hashable
    at_work: int = 0


class LastingSessions:
    """Serves sessions and ends some that rest, where there are too many.

    Who opens most loses first: nobody ends another's sessions by opening many.
    """

    def __init__(self, app: ASGIApp, *, owner_of: Callable[[Scope], Hashable]) -> None:
        """Wrap what keeps the sessions, and ends one at its client's word.

        `owner_of` names whose a request is.
        """
        self._app = app
        self._owner_of = owner_of
        self._sessions: OrderedDict[bytes, _Lasting] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, and make room if it opened a session too many."""
        named = next((value for name, value in scope["headers"] if name == _SESSION_ID), None)
        session = None if named is None else self._sessions.get(named)
        if named is None or session is None:
            opened: list[bytes] = []
            await self._app(scope, receive, _watching(send, opened))
            for one in opened:
                self._sessions[one] = _Lasting(scope.get("user"), self._owner_of(scope))
                await self._make_room(beside=one)
            return
        self._sessions.move_to_end(named)
        session.at_work += 1
        try:
            await self._app(scope, receive, send)
        finally:
            session.at_work -= 1
            if scope["method"] == "DELETE":
                self._sessions.pop(named, None)

    async def _make_room(self, *, beside: bytes) -> None:
        """End sessions that rest, but for the one that was just opened."""
        while len(self._sessions) > KEPT_MAX:
            at_rest = {
                key: one.owner
                for key, one in self._sessions.items()
                if not one.at_work and key != beside
            }
            if not at_rest:
                return
            held = Counter(one.owner for one in self._sessions.values())
            most = max(held[owner] for owner in at_rest.values())
            resting = next(key for key, owner in at_rest.items() if held[owner] == most)
            session = self._sessions.pop(resting)
            count_failure("sessions_full")
            await self._app(_ending(resting, session.user), _nothing_more, _unheard)


def _watching(send: Send, opened: list[bytes]) -> Send:
    """Return a channel that takes note of a session which an answer opens."""

    async def watch(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == HTTPStatus.OK:
            opened.extend(
                value for name, value in message.get("headers", ()) if name.lower() == _SESSION_ID
            )
        await send(message)

    return watch


def _ending(session: bytes, user: Any) -> Scope:
    """Return the request by which a client ends its session."""
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "DELETE",
        "scheme": "http",
        "path": "/mcp",
        "raw_path": b"/mcp",
        "root_path": "",
        "query_string": b"",
        "headers": [(_SESSION_ID, session), (b"accept", b"application/json, text/event-stream")],
        "client": None,
        "server": None,
        "user": user,
    }


async def _nothing_more() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _unheard(message: Message) -> None:
    """Tell nobody: its client has gone."""
