"""The list of tools as bytes, encoded once for all who see the same."""

from collections import OrderedDict

import mcp_types
import msgspec

from governor.ids import PrincipalId, TenantId
from tool_gateway.gateway import Gateway
from tool_gateway.identity import Caller
from tool_gateway.translate import tool_for_client

CALLERS_MAX = 256


class ToolLists:
    """The lists that were asked for since the tools or the policy last changed."""

    def __init__(self, gateway: Gateway, *, stamp: dict[str, object]) -> None:
        """Take whose tools to list, and the `_meta` of each list."""
        self._gateway = gateway
        self._stamp = stamp
        self._edition: tuple[object, object] = (None, None)
        self._of: OrderedDict[tuple[TenantId, PrincipalId], bytes] = OrderedDict()
        self._shared: dict[bytes, bytes] = {}

    def listed(self, caller: Caller) -> bytes:
        """Return the result of a `tools/list` of `caller`."""
        edition = self._gateway.edition
        if any(now is not then for now, then in zip(edition, self._edition, strict=True)):
            self._edition = edition
            self._of.clear()
            self._shared.clear()
        key = (caller.tenant, caller.agent)
        known = self._of.get(key)
        if known is None:
            encoded = self._encoded(caller)
            # Most agents see the same tools: one copy serves them all.
            known = self._of[key] = self._shared.setdefault(encoded, encoded)
            if len(self._of) > CALLERS_MAX:
                self._of.popitem(last=False)
                self._shared = {each: each for each in self._of.values()}
        self._of.move_to_end(key)
        return known

    def _encoded(self, caller: Caller) -> bytes:
        tools = [
            tool_for_client(listed.entry, with_output_schema=listed.with_output_schema)
            for listed in self._gateway.tools_for(caller)
        ]
        result = mcp_types.ListToolsResult(tools=tools)
        shape = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return msgspec.json.encode({**shape, "_meta": self._stamp})
