"""What both listeners check before anything of a request is looked at."""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.failures import INVALID_REQUEST, Problem
from runtime.problem_response import response_of
from tool_gateway.front.again import body_again

# How many times the limit of a body that is too large is read before it is answered.
OVERSIZE_READ = 4
_CODED = Problem(
    status=HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    code=INVALID_REQUEST,
    title="Coded body",
    detail="Bodies are taken as they are: leave Content-Encoding out.",
    headers={"Accept-Encoding": "identity", "Connection": "close"},
)
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})


class HostGuard:
    """Refuses requests for other hosts and from other origins (DNS rebinding)."""

    def __init__(self, app: ASGIApp, *, allowed_hosts: Iterable[str]) -> None:
        """Wrap `app`; loopback names are always allowed."""
        self._app = app
        self._allowed = LOOPBACK | {host.lower() for host in allowed_hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 421 (host) or 403 (origin)."""
        problem = self._problem_with(scope) if scope["type"] == "http" else None
        if problem is None:
            await self._app(scope, receive, send)
        else:
            await response_of(problem, path=scope["path"])(scope, receive, send)

    def _problem_with(self, scope: Scope) -> Problem | None:
        hosts = header_values(scope, b"host")
        if len(hosts) != 1 or bare_host(hosts[0]) not in self._allowed:
            return Problem(
                status=HTTPStatus.MISDIRECTED_REQUEST,
                code=INVALID_REQUEST,
                title="Foreign host",
                detail="This Host is not served here; add it to listen.allowed_hosts.",
            )
        for origin in header_values(scope, b"origin"):
            if _origin_host(origin) not in self._allowed:
                return Problem(
                    status=HTTPStatus.FORBIDDEN,
                    code=INVALID_REQUEST,
                    title="Foreign origin",
                    detail="This Origin may not call; add its host to listen.allowed_hosts.",
                )
        return None


class BodyLimit:
    """Hands on whole bodies of at most `bytes_max`, and answers 413 for larger ones, 415 for coded.

    A body here is one JSON document, which is read whole in any case. The frameworks' own
    limits would answer in their own words, or replace a 401 with a 413.
    """

    def __init__(
        self, app: ASGIApp, *, bytes_max: int, larger: Mapping[str, int] | None = None
    ) -> None:
        """Take what to protect; `larger` says at which paths a body may be larger."""
        self._app = app
        self._bytes_max = bytes_max
        self._larger = larger or {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on with the body that was read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if any(
            coding.lower() != "identity" for coding in header_values(scope, b"content-encoding")
        ):
            # Not even read: a small body can stand for one that fills the memory.
            await response_of(_CODED, path=scope["path"])(scope, receive, send)
            return
        bytes_max = max(self._bytes_max, self._larger.get(scope["path"], 0))
        body = await self._whole_body(receive, bytes_max)
        if body is None:
            return  # the client has gone; nobody waits for an answer
        if len(body) > bytes_max:
            await self._refuse(scope, receive, send)
            return
        await self._app(scope, body_again(body, receive), send)

    async def _whole_body(self, receive: Receive, bytes_max: int) -> bytes | None:
        """Return the body, cut after the part that made it too large; None if nobody is there.

        A sender that is cut off sees a broken connection instead of its answer. So a body
        that is too large is read a little further, and thrown away.
        """
        parts: list[bytes] = []
        taken, more = 0, True
        while more and taken <= bytes_max * (1 + OVERSIZE_READ):
            message = await receive()
            if message["type"] != "http.request":
                return None
            part = message.get("body", b"")
            if taken <= bytes_max:
                parts.append(part)
            taken += len(part)
            more = message.get("more_body", False)
        return b"".join(parts)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = Problem(
            status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            code=INVALID_REQUEST,
            title="Too large",
            detail=f"A body here has at most listen.body_bytes_max = {self._bytes_max} bytes.",
            headers={"Connection": "close"},
        )
        await response_of(problem, path=scope["path"])(scope, receive, send)


def header_values(scope: Scope, name: bytes) -> list[str]:
    """Return every value of a header; `name` is in lower case."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def bearer_token(scope: Scope) -> str | None:
    """Return the token that a request carries; None without one, or with two."""
    sent = header_values(scope, b"authorization")
    scheme, _, secret = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
    return secret.strip() if scheme.lower() == "bearer" else None


def agent_token(scope: Scope) -> str | None:
    """Return the token of an agent's request, which Anthropic's clients send as an API key.

    A client that sends both means its token: the key may be one of the provider's own.
    """
    if header_values(scope, b"authorization"):
        return bearer_token(scope)
    keys = header_values(scope, b"x-api-key")
    return keys[0].strip() if len(keys) == 1 else None


def _origin_host(origin: str) -> str:
    """Return the host of an origin, empty where it has none that can be read."""
    try:
        return bare_host(urlsplit(origin).netloc)
    except ValueError:
        return ""


def bare_host(host: str) -> str:
    """Return a host without its port, in lower case."""
    name, colon, port = host.lower().rpartition(":")
    return name if colon and port.isdigit() else host.lower()
