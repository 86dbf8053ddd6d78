"""Calls of an upstream's tools over its wire, their answers held against the protocol."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from mcp.shared.inbound import find_invalid_x_mcp_header, mcp_param_headers, x_mcp_header_map

from tool_gateway.bearer import Bearer
from tool_gateway.catalog import ToolEntry
from tool_gateway.errors import UpstreamFailedError, UpstreamNotReachedError
from tool_gateway.upstreams.wire import Hear, Wire

Members = dict[str, Any]
Shape = TypeVar("Shape", bound=msgspec.Struct)
INPUT_REQUIRED = "input_required"


class _Text(msgspec.Struct, tag="text", frozen=True):
    text: str


class _Image(msgspec.Struct, tag="image", frozen=True):
    data: str
    mimeType: str  # noqa: N815 - as the wire has it


class _Audio(msgspec.Struct, tag="audio", frozen=True):
    data: str
    mimeType: str  # noqa: N815


class _Link(msgspec.Struct, tag="resource_link", frozen=True):
    uri: str
    name: str


class _Contents(msgspec.Struct, frozen=True):
    uri: str


class _Embedded(msgspec.Struct, tag="resource", frozen=True):
    resource: _Contents


class _Answer(msgspec.Struct, frozen=True):
    """What a result must have, so that whoever reads it further need not look again."""

    content: list[_Text | _Image | _Audio | _Link | _Embedded]
    isError: bool = False  # noqa: N815
    meta: Members | None = msgspec.field(name="_meta", default=None)


class _Question(msgspec.Struct, frozen=True):
    method: str
    params: Members | None = None


class _Interim(msgspec.Struct, frozen=True):
    """What an answer must have that asks for something first."""

    inputRequests: dict[str, _Question] | None = None  # noqa: N815
    requestState: str | None = None  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    mirrored: Mapping[tuple[str, ...], str]


class ToolCalls:
    """The tools of one upstream as they are called."""

    def __init__(self, wire: Wire, entries: Iterable[ToolEntry]) -> None:
        """Prepare the calls of `entries`."""
        self._wire = wire
        self._tools = {entry.original: _tool_of(entry) for entry in entries}

    async def sent(
        self, params: Mapping[str, Any], *, hear: Hear | None = None, bearer: Bearer | None = None
    ) -> Members:
        """Return the upstream's result of a call; `bearer` is the token that its caller came with.

        Raises:
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it broke off, or answered what it may not.
            MCPError: it answered with an error.
        """
        found = self._tools.get(params["name"])
        if found is None:
            raise UpstreamNotReachedError(f"the upstream no longer offers {params['name']}")
        headers = None
        if found.mirrored:
            headers = mcp_param_headers(found.mirrored, params.get("arguments") or {})
        answer = await self._wire.request(
            "tools/call", params, headers=headers, hear=hear, bearer=bearer
        )
        match answer.get("resultType", "complete"):
            case "complete":
                _converted(answer, _Answer)
            case "input_required":
                _converted(answer, _Interim)
            case _:
                """An extension's answer has the extension's shape."""
        return answer


def _tool_of(entry: ToolEntry) -> _Tool:
    schema = dict(entry.input_schema)
    # A declaration that is at fault is none: its headers could not be told from another's.
    mirrored = {} if find_invalid_x_mcp_header(schema) is not None else x_mcp_header_map(schema)
    return _Tool(mirrored=mirrored)


def _converted(answer: Members, shape: type[Shape]) -> Shape:
    try:
        return msgspec.convert(answer, shape)
    except msgspec.ValidationError as error:
        message = f"the upstream answered what the protocol does not allow: {error}"
        raise UpstreamFailedError(message) from error
