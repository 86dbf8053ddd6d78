"""A request of the era without sessions, read from its bytes in one go.

Only what is plainly in order is read here: `None` means that the SDK's front has to look at
the request, and say what is wrong with it. So there is one set of words for every fault.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import mcp_types
import msgspec
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    decode_header_value,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from starlette.types import Scope

from tool_gateway.exchange import QUESTIONS
from tool_gateway.front.json_text import is_too_deep
from tool_gateway.results import Json

CALL = "tools/call"
LIST = "tools/list"
_METHODS = frozenset({CALL, LIST})
_ACCEPTED = ({"application/json", "application/*", "*/*"}, {"text/event-stream", "text/*", "*/*"})
_CLIENT_BYTES_MAX = 4_096
# Who asks for one of these is to be told something before the answer.
_TOLD = frozenset({"progressToken", mcp_types.LOG_LEVEL_META_KEY})


class _Params(msgspec.Struct, forbid_unknown_fields=True):
    meta: dict[str, Any] = msgspec.field(name="_meta")
    name: str = ""
    arguments: dict[str, Any] | None = None


class _Body(msgspec.Struct):
    jsonrpc: Literal["2.0"]
    id: int | str
    method: str
    params: _Params


@dataclass(frozen=True, slots=True, kw_only=True)
class ModernRequest:
    """A call of a tool, or the wish for the list of them."""

    id: int | str
    method: str
    tool: str
    arguments: Json
    meta: Json
    headers: Mapping[str, str]

    @property
    def capabilities(self) -> Json:
        """Return what the client says that it can do."""
        said = self.meta[mcp_types.CLIENT_CAPABILITIES_META_KEY]
        assert isinstance(said, Mapping), "it was checked when the request was read"
        return said

    @property
    def can_be_asked(self) -> bool:
        """Tell whether a server may have questions to the client."""
        return any(capability in self.capabilities for capability in QUESTIONS.values())


_decode = msgspec.json.Decoder(_Body).decode
_encode = msgspec.json.Encoder().encode


def headers_of(scope: Scope) -> dict[str, str] | None:
    """Return the headers of a request that may be read here, None of any other."""
    if scope["method"] != "POST":
        return None
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1")
        if key in headers:
            return None
        headers[key] = value.decode("latin-1")
    if (
        headers.get(MCP_PROTOCOL_VERSION_HEADER) not in MODERN_PROTOCOL_VERSIONS
        or headers.get(MCP_METHOD_HEADER) not in _METHODS
        or not headers.get("content-type", "").lower().startswith("application/json")
        or not _accepts_both(headers.get("accept", ""))
    ):
        return None
    return headers


def request_of(headers: Mapping[str, str], body: bytes) -> ModernRequest | None:
    """Return the request that `body` holds, None if anything about it is not in order."""
    try:
        decoded = _decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    params, meta = decoded.params, decoded.params.meta
    if is_too_deep(body, [meta, params.arguments]):
        return None
    if (
        decoded.method != headers[MCP_METHOD_HEADER]
        or meta.get(mcp_types.PROTOCOL_VERSION_META_KEY) != headers[MCP_PROTOCOL_VERSION_HEADER]
        or not _is_named(decoded, headers)
        or not _is_known_client(meta)
    ):
        return None
    return ModernRequest(
        id=decoded.id,
        method=decoded.method,
        tool=params.name,
        arguments=params.arguments or {},
        meta=meta,
        headers=headers,
    )


def _is_named(decoded: _Body, headers: Mapping[str, str]) -> bool:
    params = decoded.params
    if decoded.method == LIST:
        return not params.name and params.arguments is None
    named = headers.get(MCP_NAME_HEADER)
    return bool(params.name) and (named == params.name or decode_header_value(named) == params.name)


def _is_known_client(meta: Json) -> bool:
    info = meta.get(mcp_types.CLIENT_INFO_META_KEY)
    capabilities = meta.get(mcp_types.CLIENT_CAPABILITIES_META_KEY)
    if not isinstance(capabilities, dict) or not _TOLD.isdisjoint(meta):
        return False
    if "extensions" in capabilities:  # they change what calls are and are answered with
        return False
    said = _encode([info, capabilities])
    return len(said) <= _CLIENT_BYTES_MAX and _is_well_formed(said)


@lru_cache(maxsize=256)
def _is_well_formed(said: bytes) -> bool:
    """Tell whether a client describes itself as the protocol says; most say the same each time."""
    info, capabilities = msgspec.json.decode(said)
    try:
        mcp_types.ClientCapabilities.model_validate(capabilities, by_name=False)
        if info is not None:
            mcp_types.Implementation.model_validate(info, by_name=False)
    except ValidationError:
        return False
    return True


@lru_cache(maxsize=256)
def _accepts_both(accept: str) -> bool:
    """Tell whether an answer may be JSON, and may be events."""
    named = {one.partition(";")[0].strip().lower() for one in accept.split(",")}
    return all(named & kind for kind in _ACCEPTED)
