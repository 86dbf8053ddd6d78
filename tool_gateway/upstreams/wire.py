"""Requests to an upstream of the era without sessions, without the SDK's objects.

Every request is one POST with one answer: JSON, or events of which the last is the answer.
The SDK's client still connects, discovers, lists and listens; what it would do to each call
(models, tasks, streams, spans) costs several times the call.
"""

from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from itertools import count
from typing import Any

import mcp_types
import msgspec
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)

from tool_gateway import spans
from tool_gateway.bearer import Bearer
from tool_gateway.egress.ways import Ways
from tool_gateway.errors import UpstreamFailedError, UpstreamLostError, UpstreamNotReachedError
from tool_gateway.results import Json
from tool_gateway.upstreams.events import EventCutter
from tool_gateway.upstreams.http import JSON_BYTES_MAX
from tool_gateway.upstreams.http1 import ConnectionPool, Response
from tool_gateway.upstreams.oauth.challenge import Challenge, challenge_of
from tool_gateway.upstreams.oauth.credentials import Credentials
from tool_gateway.upstreams.origin import can_be_sent, origin_of
from tool_gateway.upstreams.spec import HttpSpec

# Who hears what the upstream tells before it answers: the method and its parameters.
Hear = Callable[[str, Json], Awaitable[None]]

_JSON = b"application/json"
_EVENTS = b"text/event-stream"
_END = b"\r\n"
_REFUSALS = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN})
_REDIRECTS, _FAULTS = 3, 5  # the first digits of their codes


class Wire:
    """Sends requests to one upstream."""

    def __init__(
        self,
        spec: HttpSpec,
        pool: ConnectionPool,
        *,
        host: str,
        path: str,
        meta: Json,
        credentials: Credentials | None = None,
    ) -> None:
        """Take where requests go, and the `_meta` that each has unless it brings its own."""
        self._credentials = credentials
        self._name = spec.name
        self._pool = pool
        self._meta = dict(meta)
        self._host = host
        self._version = str(meta[mcp_types.PROTOCOL_VERSION_META_KEY])
        self._ids = count(1)
        lines = {
            "host": host,
            "accept": "application/json, text/event-stream",
            "accept-encoding": "identity",  # what is counted must be what is read
            "content-type": "application/json",
            MCP_PROTOCOL_VERSION_HEADER: self._version,
            **{name.lower(): value for name, value in spec.headers.items()},
        }
        if credentials is not None:
            lines.pop("authorization", None)  # each request has its own, and may have but one
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self._head = f"POST {path} HTTP/1.1\r\n{head}".encode("ascii")
        self._encode = msgspec.json.Encoder().encode
        self._decode = msgspec.json.Decoder().decode

    def close(self) -> None:
        """Close the connections that are kept."""
        self._pool.close()

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        headers: Mapping[str, str] | None = None,
        hear: Hear | None = None,
        bearer: Bearer | None = None,
    ) -> dict[str, Any]:
        """Return the upstream's result, whole; `hear` is told what it notifies of before.

        `headers` are further ones that this request needs, fit to be sent; `bearer` is the token
        that its caller came with.

        Raises:
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it broke off, or answered what the protocol does not allow.
            MCPError: it answered with an error.
        """
        with spans.asking(
            method,
            name=params.get("name"),
            upstream=self._name,
            version=self._version,
            request_id=(request_id := next(self._ids)),
            address=self._host,
        ) as span:
            try:
                return await self._asked(
                    method, params, request_id=request_id, headers=headers, hear=hear, bearer=bearer
                )
            except MCPError as error:
                spans.note_fault(span, str(error.code), is_code=True)
                raise

    async def _asked(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        request_id: int,
        headers: Mapping[str, str] | None,
        hear: Hear | None,
        bearer: Bearer | None,
    ) -> dict[str, Any]:
        """Return the upstream's result; the span that runs is the parent of what it does."""
        meta = {**self._meta, **(params.get("_meta") or {})}
        if traced := spans.context_to_send(meta):
            meta |= traced
            headers = {**(headers or {}), **traced}
        sent = {**params, "_meta": meta}
        body = self._encode({"jsonrpc": "2.0", "id": request_id, "method": method, "params": sent})
        head = self._head_of(method, params, headers, len(body))
        try:
            if self._credentials is None:
                async with self._pool.sent(head + _END, body) as response:
                    answer = await self._answer(response, hear)
            else:
                answer = await self._presented(self._credentials, bearer, head, body, hear)
        except UpstreamFailedError as error:
            raise type(error)(f"upstream {self._name}: {error}") from error
        return self._result_of(answer, request_id)

    async def _presented(
        self,
        credentials: Credentials,
        bearer: Bearer | None,
        head: bytes,
        body: bytes,
        hear: Hear | None,
    ) -> dict[str, Any]:
        """Return the answer to a request with credentials, which are renewed once if refused.

        A server that refuses them has done nothing else, so the request may be sent again.
        """
        token = await self._token(credentials, bearer)
        async with self._pool.sent(head + _authorized(token), body) as response:
            challenge = _challenge_in(response)
            if challenge is None:
                return await self._answer(response, hear)
            await response.drain()
        refused = f"it refuses its credentials (HTTP {challenge.status})"
        try:
            renewed = await credentials.renewed(bearer, token, challenge)
            if renewed is None:
                raise UpstreamFailedError(refused)
            async with self._pool.sent(head + _authorized(renewed), body) as response:
                if (challenge := _challenge_in(response)) is not None:
                    raise UpstreamFailedError(f"{refused}, renewed ones too")
                return await self._answer(response, hear)
        except UpstreamNotReachedError as error:
            # The request was sent once, so nobody may take it for one that never was.
            raise UpstreamFailedError(f"{refused}, and then: {error}") from error

    async def _token(self, credentials: Credentials, bearer: Bearer | None) -> str | None:
        """Return a token; why there is none is said with the upstream's name."""
        try:
            return await credentials.token(bearer)
        except UpstreamNotReachedError as error:
            raise type(error)(f"upstream {self._name}: {error}") from error

    def _head_of(
        self, method: str, params: Mapping[str, Any], headers: Json | None, length: int
    ) -> bytes:
        lines = f"{MCP_METHOD_HEADER}: {method}\r\ncontent-length: {length}\r\n"
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if isinstance(name, str):
            lines += f"{MCP_NAME_HEADER}: {encode_header_value(name)}\r\n"
        for key, value in (headers or {}).items():
            lines += f"{key}: {value}\r\n"
        return self._head + lines.encode("ascii")

    async def _answer(self, response: Response, hear: Hear | None) -> dict[str, Any]:
        """Return the message that answers the request."""
        if response.headers.get(b"content-encoding", b"identity").lower() != b"identity":
            raise UpstreamFailedError("the answer is compressed against our request")
        media_type = response.media_type
        if media_type == _JSON and response.status // 100 != _REDIRECTS:
            return self._message(await response.read(JSON_BYTES_MAX), response.status)
        if response.status == HTTPStatus.OK and media_type == _EVENTS:
            return await self._last_event(response, hear)
        kind = UpstreamLostError if response.status // 100 == _FAULTS else UpstreamFailedError
        raise kind(_unexpected(response))

    async def _last_event(self, response: Response, hear: Hear | None) -> dict[str, Any]:
        cutter = EventCutter(bytes_max=JSON_BYTES_MAX)
        async for part in response.parts():
            for event in cutter.cut(part):
                message = self._message(event, response.status)
                if "method" not in message:
                    await response.drain()
                    return message
                if hear is not None and "id" not in message:
                    await hear(str(message["method"]), message.get("params") or {})
        raise UpstreamLostError("the events ended without an answer")

    def _message(self, text: bytes, status: int) -> dict[str, Any]:
        try:
            message = self._decode(text)
        except (msgspec.DecodeError, RecursionError) as error:
            raise UpstreamFailedError(f"the answer (HTTP {status}) is not JSON: {error}") from error
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise UpstreamFailedError(f"the answer (HTTP {status}) is not of JSON-RPC")
        return message

    def _result_of(self, answer: dict[str, Any], request_id: int) -> dict[str, Any]:
        error = answer.get("error")
        if isinstance(error, dict):
            code, message = error.get("code"), error.get("message")
            if isinstance(code, int) and isinstance(message, str):
                raise MCPError(code, message, error.get("data"))
        result = answer.get("result")
        if not isinstance(result, dict) or answer.get("id") != request_id:
            message = f"upstream {self._name}: the answer has no result for this request"
            raise UpstreamFailedError(message)
        return result


def wire_to(spec: HttpSpec, *, meta: Json, credentials: Credentials | None = None) -> Wire | None:
    """Return a wire to the upstream; None where only a general client gets there."""
    origin = origin_of(spec.url)
    if origin is None or not can_be_sent(spec.headers):
        return None
    pool = ConnectionPool(f"upstream {spec.name}", origin, Ways(spec.reach))
    return Wire(
        spec,
        pool,
        host=origin.host_header,
        path=origin.path,
        meta=meta,
        credentials=credentials,
    )


def _authorized(token: str | None) -> bytes:
    """Return the end of a head, with the line that says who asks."""
    return _END if token is None else f"authorization: Bearer {token}\r\n\r\n".encode("ascii")


def _challenge_in(response: Response) -> Challenge | None:
    if response.status not in _REFUSALS:
        return None
    told = response.headers.get(b"www-authenticate", b"").decode("latin-1")
    return challenge_of(response.status, told)


def _unexpected(response: Response) -> str:
    if response.status // 100 == _REDIRECTS:
        return f"the answer is a redirect (HTTP {response.status}), which is not followed"
    if response.status == HTTPStatus.OK:
        return f"unexpected content type {response.media_type.decode('latin-1')!r:.80}"
    return f"the server answered with HTTP {response.status}"
