"""A small authorization server over real HTTP: keys that rotate, metadata, and a token endpoint."""

import base64
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

import anyio
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.tool_gateway.protocol.stage import served

BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass
class SigningKey:
    """A key and how it is announced."""

    name: str
    algorithm: str = "ES256"
    private: Any = None

    def __post_init__(self) -> None:
        if self.private is None:
            is_rsa = self.algorithm.startswith(("RS", "PS"))
            made = rsa.generate_private_key(65_537, 2048) if is_rsa else None
            self.private = made or ec.generate_private_key(ec.SECP256R1())

    def public(self) -> dict[str, Any]:
        kind = jwt.get_algorithm_by_name(self.algorithm)
        shown = kind.to_jwk(self.private.public_key(), as_dict=True)
        return {**shown, "kid": self.name, "use": "sig", "alg": self.algorithm}


@dataclass
class Authority:
    """Issues tokens; a test changes what it has and how it behaves."""

    url: str = ""
    keys: list[SigningKey] = field(default_factory=lambda: [SigningKey("first")])
    clients: dict[str, str] = field(default_factory=lambda: {"flyball": "s3cret-of-flyball"})
    client_keys: dict[str, Any] = field(default_factory=dict)
    extra_metadata: dict[str, Any] = field(default_factory=dict)
    lifetime_s: int = 300
    is_down: bool = False
    hangs: anyio.Event | None = None
    seen: list[str] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)
    answer: Response | None = None
    opaque: bool = False
    issued: list[str] = field(default_factory=list)

    @property
    def issuer(self) -> str:
        return self.url

    def token(self, *, key: SigningKey | None = None, **claims: Any) -> str:
        """Return a signed token with usual claims; None takes one away."""
        key = key or self.keys[0]
        now = int(time.time())
        usual = {"iss": self.issuer, "sub": "ada", "exp": now + 300, "iat": now, "scope": "mcp"}
        headers = {"kid": key.name, "typ": "at+jwt", **claims.pop("header", {})}
        told = {name: value for name, value in {**usual, **claims}.items() if value is not None}
        return jwt.encode(told, key.private, algorithm=key.algorithm, headers=headers)

    def counted(self, path: str) -> int:
        return sum(one.startswith(path) for one in self.seen)

    def app(self) -> Starlette:
        metadata = "/.well-known/oauth-authorization-server"
        return Starlette(
            routes=[
                Route(metadata, self._metadata),
                Route("/jwks", self._jwks),
                Route("/token", self._token, methods=["POST"]),
            ]
        )

    async def _metadata(self, request: Request) -> Response:
        self.seen.append(request.url.path)
        if self.hangs is not None:
            await self.hangs.wait()
        return self._or_down(
            {
                "issuer": self.issuer,
                "token_endpoint": f"{self.url}/token",
                "jwks_uri": f"{self.url}/jwks",
                "grant_types_supported": ["client_credentials", EXCHANGE],
                "token_endpoint_auth_methods_supported": [
                    *("client_secret_basic", "client_secret_post", "private_key_jwt")
                ],
                **self.extra_metadata,
            }
        )

    async def _jwks(self, request: Request) -> Response:
        self.seen.append(request.url.path)
        return self._or_down({"keys": [key.public() for key in self.keys]})

    def _or_down(self, document: dict[str, Any]) -> Response:
        return Response(status_code=503) if self.is_down else JSONResponse(document)

    async def _token(self, request: Request) -> Response:
        self.seen.append(request.url.path)
        form = {name: told[0] for name, told in parse_qs((await request.body()).decode()).items()}
        self.asked.append(form)
        if self.is_down:
            return Response(status_code=503)
        if self.answer is not None:
            return self.answer
        is_workload = form.get("grant_type") == BEARER
        client = form.get("assertion") if is_workload else self._client(request, form)
        if client is None:
            return JSONResponse({"error": "invalid_client"}, status_code=401)
        return self._issued(form, client)

    def _issued(self, form: Mapping[str, str], client: str) -> Response:
        subject = client
        if form.get("grant_type") == EXCHANGE:
            told = jwt.decode(form["subject_token"], options={"verify_signature": False})
            subject = told["sub"]
        claims = {
            "sub": subject,
            "aud": form.get("resource") or form.get("audience") or "nobody",
            "scope": form.get("scope", ""),
            "jti": str(len(self.issued)),
            "exp": int(time.time()) + self.lifetime_s,
        }
        token = self.token(**claims)
        self.issued.append(token)
        told = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_s}
        if form.get("grant_type") == EXCHANGE:
            told["issued_token_type"] = "urn:ietf:params:oauth:token-type:access_token"
        return JSONResponse(told)

    def _client(self, request: Request, form: Mapping[str, str]) -> str | None:
        scheme, _, sent = request.headers.get("authorization", "").partition(" ")
        if scheme == "Basic":
            name, _, secret = base64.b64decode(sent).decode().partition(":")
            name, secret = unquote(name), unquote(secret)
        elif form.get("client_assertion_type") == ASSERTION:
            return self._by_assertion(form["client_assertion"])
        else:
            name, secret = form.get("client_id", ""), form.get("client_secret", "")
        return name if self.clients.get(name) == secret else None

    def _by_assertion(self, assertion: str) -> str | None:
        name = str(jwt.decode(assertion, options={"verify_signature": False})["iss"])
        claims = jwt.decode(
            assertion, self.client_keys[name], algorithms=["ES256"], audience=self.issuer
        )
        return name if claims["sub"] == name and "jti" in claims else None


@asynccontextmanager
async def authority() -> AsyncIterator[Authority]:
    """Serve an authorization server on loopback."""
    made = Authority()
    async with served(made.app()) as url:
        made.url = url
        yield made


def claims_in(token: str) -> dict[str, Any]:
    """Return what a token says, whoever signed it."""
    payload = token.split(".")[1]
    read: dict[str, Any] = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    return read
