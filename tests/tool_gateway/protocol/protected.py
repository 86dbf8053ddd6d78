"""A real MCP server behind an authorization server: who has no good token is challenged."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import jwt
from jwt.exceptions import PyJWTError
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from governor.ids import UpstreamName
from tests.authority import Authority
from tests.tool_gateway.protocol.everything import Everything
from tests.tool_gateway.protocol.stage import served
from tool_gateway.egress.reach import LEARNED, network_of
from tool_gateway.upstreams.oauth.terms import ClientCredentials, OAuthClient, UpstreamAuth
from tool_gateway.upstreams.spec import HttpSpec, Share

METADATA = "/.well-known/oauth-protected-resource"
# What the tests' servers say of each other is on this machine.
NEARBY = replace(LEARNED, networks=(network_of("127.0.0.1"),))


@dataclass
class Seen:
    """A request that came: its method, and the token that it had."""

    method: str
    token: str | None


@dataclass
class Protected:
    """Serves `app` to tokens of `there` that are for it; a test changes what it wants."""

    there: Authority
    app: ASGIApp
    url: str = ""
    trusts: tuple[str, ...] = ()
    revoked: set[str] = field(default_factory=set)
    scopes: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    opens: frozenset[str] = frozenset()
    moved_to: str | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        if scope["path"].startswith(METADATA):
            document = {"resource": self.url, "authorization_servers": [self.there.issuer]}
            await JSONResponse({**document, **self.metadata})(scope, receive, send)
            return
        body, again = await _body(receive)
        method = str(json.loads(body).get("method", "")) if body else scope["method"]
        named = [value for name, value in scope["headers"] if name == b"authorization"]
        assert len(named) <= 1, "a request says once who asks"
        sent = b"".join(named).decode()
        token = sent.removeprefix("Bearer ") if sent else None
        self.seen.append(Seen(method, token))
        refusal = self._refusal(token, method)
        if refusal is None and self.moved_to is not None and method == "tools/call":
            refusal = Response(status_code=307, headers={"location": self.moved_to})
        await (self.app(scope, again, send) if refusal is None else refusal(scope, receive, send))

    def _refusal(self, token: str | None, method: str) -> Response | None:
        if method in self.opens:
            return None
        place = self.url.replace("/mcp", f"{METADATA}/mcp")
        claims = self._claims(token)
        if claims is None or token in self.revoked:
            told = f'Bearer error="invalid_token", resource_metadata="{place}"'
            return Response(status_code=401, headers={"www-authenticate": told})
        wanted = self.scopes.get(method)
        if wanted is not None and wanted not in str(claims.get("scope", "")).split():
            told = f'Bearer error="insufficient_scope", scope="{wanted}"'
            return Response(status_code=403, headers={"www-authenticate": told})
        return None

    def _claims(self, token: str | None) -> dict[str, Any] | None:
        keys = {key.name: key for key in self.there.keys}
        try:
            key = keys[jwt.get_unverified_header(token or "")["kid"]].private.public_key()
            audiences = [self.url, *self.trusts]
            return dict(jwt.decode(token or "", key, algorithms=["ES256"], audience=audiences))
        except (PyJWTError, KeyError):
            return None

    def tokens(self, method: str) -> list[str | None]:
        return [one.token for one in self.seen if one.method == method]


async def _body(receive: Receive) -> tuple[bytes, Receive]:
    parts: list[bytes] = []
    messages: list[Message] = []
    while True:
        message = await receive()
        messages.append(message)
        parts.append(message.get("body", b""))
        if message["type"] != "http.request" or not message.get("more_body", False):
            break

    async def again() -> Message:
        return messages.pop(0) if messages else await receive()

    return b"".join(parts), again


def a_client(**more: Any) -> OAuthClient:
    usual: dict[str, Any] = {
        "client_id": "flyball",
        "secret": "s3cret-of-flyball",
        "learned": NEARBY,
    }
    return OAuthClient(**{**usual, **more})


@asynccontextmanager
async def protected(
    there: Authority,
    *,
    auth: UpstreamAuth | None = None,
    versions: tuple[str, ...] | None = None,
    name: str = "one",
    share: Share = Share.ALL,
) -> AsyncIterator[tuple[Protected, HttpSpec]]:
    """Serve an MCP server that wants tokens, and yield it with its spec."""
    everything = Everything()
    made = Protected(there, everything.app(versions=versions))
    async with everything.server.session_manager.run(), served(made) as url:
        made.url = f"{url}/mcp"
        spec = HttpSpec(
            name=UpstreamName(name),
            url=made.url,
            auth=auth or ClientCredentials(client=a_client()),
            share=share,
        )
        yield made, spec
