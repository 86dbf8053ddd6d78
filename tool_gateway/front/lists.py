"""The list of tools as bytes: each tool is encoded once, and each list that many see."""

from collections import OrderedDict
from collections.abc import Sequence

import mcp_types
import msgspec

from governor.ids import PrincipalId, TenantId, ToolName
from tool_gateway.gateway import Gateway, Listed
from tool_gateway.identity import CallContext, Caller
from tool_gateway.outcomes import OUTCOME_META
from tool_gateway.translate import tool_for_client

CALLERS_MAX = 256


class ToolLists:
    """What was asked for since the tools or the policy last changed."""

    def __init__(self, gateway: Gateway, *, stamp: dict[str, object]) -> None:
        """Take whose tools to list, and the `_meta` of each list."""
        self._gateway = gateway
        empty = mcp_types.ListToolsResult(tools=[])
        self._shape = empty.model_dump(mode="json", by_alias=True, exclude_none=True)
        del self._shape["tools"]
        self._stamp = stamp
        self._edition: tuple[object, object, object] = (None, None, None)
        self._tools: dict[tuple[ToolName, bool], bytes] = {}
        self._of: OrderedDict[tuple[TenantId, PrincipalId, bool], bytes] = OrderedDict()
        self._shared: dict[bytes, bytes] = {}

    async def listed(self, caller: Caller, context: CallContext) -> bytes:
        """Return the result of a `tools/list` of `caller`."""
        catalog, policy, outcomes = edition = self._gateway.edition
        if (
            catalog is not self._edition[0]
            or policy is not self._edition[1]
            or outcomes != self._edition[2]
        ):
            self._edition = edition
            self._tools.clear()
            self._of.clear()
            self._shared.clear()
        if not self._gateway.shows_all(caller):
            return self._encoded(caller, await self._gateway.listed_for(caller, context))
        key = (caller.tenant, caller.agent, context.is_read_only)
        known = self._of.get(key)
        if known is None:
            shown = self._gateway.tools_for(caller, is_read_only=context.is_read_only)
            encoded = self._encoded(caller, shown)
            # Most agents see the same tools: one copy serves them all.
            known = self._of[key] = self._shared.setdefault(encoded, encoded)
            if len(self._of) > CALLERS_MAX:
                self._of.popitem(last=False)
                self._shared = {each: each for each in self._of.values()}
        self._of.move_to_end(key)
        return known

    def _encoded(self, caller: Caller, tools: Sequence[Listed]) -> bytes:
        outcome = self._gateway.outcome_of(caller, tools)
        meta = self._stamp if outcome is None else {**self._stamp, OUTCOME_META: outcome}
        opening = msgspec.json.encode({**self._shape, "_meta": meta})[:-1]
        return b'%b,"tools":[%b]}' % (opening, b",".join(map(self._tool, tools)))

    def _tool(self, listed: Listed) -> bytes:
        key = (listed.entry.exposed, listed.with_output_schema)
        known = self._tools.get(key)
        if known is None:
            tool = tool_for_client(listed.entry, with_output_schema=listed.with_output_schema)
            known = self._tools[key] = msgspec.json.encode(tool)
        return known
