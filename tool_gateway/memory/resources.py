"""Experiences as resources of the protocol: each has an address that stays, `flyball://memory/…`.

To read one is a call of `memory_read`, with its rule, its budgets and its record. A list says of
what kind they are, and nothing of what stands in them.
"""

import base64
from collections.abc import Mapping
from typing import Protocol

from governor.experience.experience import Experience
from governor.ids import ExperienceId, SessionId
from governor.scope import ScopeChain
from tool_gateway.errors import (
    ExperienceDamagedError,
    ExperienceMissError,
    GatewayError,
    MemoryRefusedError,
    MemoryUnavailableError,
    OfferDeniedError,
    UnknownOfferError,
)
from tool_gateway.identity import CallContext, Caller
from tool_gateway.memory.definitions import READ, READ_BYTES_MAX, READ_BYTES_MIN
from tool_gateway.memory.requests import EXPERIENCE_PREFIX
from tool_gateway.memory.tools import FAULT_META, URI_PREFIX
from tool_gateway.results import DENIAL_META, EXPERIENCE_META, OUR_META, Json, ToolResult

LISTED_MAX = 100
TEMPLATE: Json = {
    "uriTemplate": f"{URI_PREFIX}{{index}}",
    "name": "experience",
    "title": "An experience by its index",
    "description": "What is kept in the experience memory under an index, byte for byte.",
}
_MEMBERS = ("resources", "resourceTemplates")
# As many ranges as one reading takes: what is larger is read range by range with the tool.
_RANGES_MAX = 64


class MemoryCalls(Protocol):
    """Runs calls of tools for whoever asks for a resource."""

    async def call(
        self,
        caller: Caller,
        context: CallContext,
        *,
        tool: str,
        arguments: Mapping[str, object],
    ) -> ToolResult:
        """Run one governed call."""
        ...

    def offers(self, caller: Caller, tool: str) -> bool:
        """Tell whether a caller may call a tool."""
        ...


class KnownExperiences(Protocol):
    """Knows what an agent has kept."""

    async def latest(self, chain: ScopeChain, *, most: int) -> tuple[Experience, ...]:
        """Return the latest of the agent's own, without their contents."""
        ...

    async def about(self, chain: ScopeChain, index: ExperienceId) -> Experience:
        """Return what is known of an experience that the agent may read.

        Raises:
            ExperienceMissError: it may not, or there is none.
        """
        ...


class MemoryResources:
    """Lists and reads experiences as resources."""

    def __init__(self, calls: MemoryCalls, memory: KnownExperiences) -> None:
        """Take what runs calls, and what knows what there is."""
        self._calls = calls
        self._memory = memory

    def has(self, uri: str) -> bool:
        """Tell whether a URI is one of an experience."""
        return uri.startswith(URI_PREFIX)

    async def listed(self, member: str, caller: Caller) -> list[Json]:
        """Return the resources, or the templates, that the agent has beside the upstreams'.

        Where the memory does not answer there are none: the rest of the list stands.
        """
        if member not in _MEMBERS or not self._calls.offers(caller, READ):
            return []
        if member == "resourceTemplates":
            return [TEMPLATE]
        # Whose own they are does not depend on the session.
        chain = ScopeChain(tenant=caller.tenant, agent=caller.agent, session=SessionId(""))
        try:
            found = await self._memory.latest(chain, most=LISTED_MAX)
        except MemoryUnavailableError:
            return []
        return [_resource(one) for one in found]

    async def read(self, caller: Caller, context: CallContext, uri: str) -> Json:
        """Return the whole content of an experience.

        Raises:
            OfferDeniedError: the policy or a budget refuses it.
            UnknownOfferError: there is no such experience for the caller.
            GatewayError: it is damaged, or cannot be had now.
        """
        about = await self._about(caller, uri)
        index = about.experience_id
        # As much as there is, so that no more is held of a budget.
        size = max(READ_BYTES_MIN, min(about.size_bytes, READ_BYTES_MAX))
        content, result = b"", None
        for _ in range(_RANGES_MAX):
            arguments: dict[str, object] = {
                "index": index,
                "offset": len(content),
                "max_bytes": size,
                "encoding": "base64",
            }
            result = await self._calls.call(caller, context, tool=READ, arguments=arguments)
            meta = _read_meta(uri, result)
            content += base64.b64decode(_exact(result))
            if meta.get("next_offset") is None:
                break
        assert result is not None, "there is one range at least"
        return _contents(uri, content, result)

    async def check(self, caller: Caller, uri: str) -> None:
        """Return if there is an experience that the caller may read.

        Raises:
            UnknownOfferError: there is none.
            MemoryUnavailableError: nobody can say.
        """
        if not self._calls.offers(caller, READ):
            raise _unknown(uri)
        await self._about(caller, uri)

    async def _about(self, caller: Caller, uri: str) -> Experience:
        index = uri.removeprefix(URI_PREFIX)
        if not index.startswith(EXPERIENCE_PREFIX):
            raise _unknown(uri)
        chain = ScopeChain(tenant=caller.tenant, agent=caller.agent, session=SessionId(""))
        try:
            return await self._memory.about(chain, ExperienceId(index))
        except ExperienceMissError as error:
            raise _unknown(uri) from error


def _exact(result: ToolResult) -> str:
    structured = result.structured
    assert isinstance(structured, Mapping), "a read of an experience says what it shows"
    return str(structured["content"])


def _read_meta(uri: str, result: ToolResult) -> Mapping[str, object]:
    """Return what a read says of what it shows.

    Raises:
        OfferDeniedError: it was denied.
        UnknownOfferError: there is nothing to read.
        GatewayError: it went wrong.
    """
    denial = result.meta.get(DENIAL_META)
    if isinstance(denial, Mapping):
        raise OfferDeniedError(denial)
    meta = result.meta.get(EXPERIENCE_META)
    if isinstance(meta, Mapping):
        return meta
    raise _fault(uri, result)


def _fault(uri: str, result: ToolResult) -> GatewayError:
    match result.meta.get(FAULT_META):
        case "damaged":
            return ExperienceDamagedError()
        case "unavailable":
            return MemoryUnavailableError()
        case "not_found":
            return _unknown(uri)
        case _:
            return MemoryRefusedError(result.sole_text)


def _unknown(uri: str) -> UnknownOfferError:
    return UnknownOfferError(f"unknown resource {uri!r:.200}; memory_search finds experiences")


def _contents(uri: str, content: bytes, result: ToolResult) -> Json:
    meta = result.meta[EXPERIENCE_META]
    assert isinstance(meta, Mapping), "it was read"
    item: dict[str, object] = {"uri": uri, "mimeType": meta["media_type"]}
    try:
        item["text"] = content.decode()
    except UnicodeDecodeError:
        item["blob"] = base64.b64encode(content).decode()
    said = ("index", "role", "lane", "standing", "kind", "source", "receipt")
    item["_meta"] = {EXPERIENCE_META: {name: meta[name] for name in said}}
    ours = {name: value for name, value in result.meta.items() if name.startswith(OUR_META)}
    ours.pop(EXPERIENCE_META)
    return {"contents": [item], "_meta": ours}


def _resource(one: Experience) -> Json:
    return {
        "uri": f"{URI_PREFIX}{one.experience_id}",
        "name": one.experience_id,
        "description": f"{one.kind.value}, lane {one.lane.value}, {one.standing.value}",
        "mimeType": one.media_type,
        "size": one.size_bytes,
        "_meta": {EXPERIENCE_META: {"lane": one.lane.value, "learned_at_ms": one.learned_at_ms}},
    }
