"""The stream on which a client of the era without sessions hears what changes."""

from collections.abc import Callable

import mcp_types
from mcp.server.subscriptions import (
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)

from tool_gateway.changes import Change, ChangeKind, Changes
from tool_gateway.errors import GatewayError
from tool_gateway.exchange import NOBODY
from tool_gateway.front.exchanges import Context
from tool_gateway.identity import Caller
from tool_gateway.relaying import Relaying


class _Bus:
    """What changes, in the SDK's words."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes

    async def publish(self, event: ServerEvent) -> None:
        """Publish nothing: the upstreams do."""

    def subscribe(self, listener: Callable[[ServerEvent], None]) -> Callable[[], None]:
        """Tell `listener` until what is returned is called."""
        return self._changes.subscribe(lambda change: listener(_event_of(change)))


class Listening:
    """Serves `subscriptions/listen`: a stream for each request, until its client goes."""

    def __init__(self, relaying: Relaying) -> None:
        """Take what upstreams can be told to watch."""
        self._relaying = relaying
        self._streams = ListenHandler(_Bus(relaying.changes))

    async def serve(
        self, ctx: Context, caller: Caller, params: mcp_types.SubscriptionsListenRequestParams
    ) -> mcp_types.SubscriptionsListenResult:
        """Tell the client what it asked for, as far as it can be had, until it goes."""
        watched: list[str] = []
        try:
            for uri in dict.fromkeys(params.notifications.resource_subscriptions or ()):
                try:
                    await self._relaying.watch(uri, caller, NOBODY)
                except GatewayError:
                    continue  # left out of what is acknowledged, as the protocol has it
                watched.append(uri)
            honoured = params.notifications.model_copy(
                update={"resource_subscriptions": watched or None}
            )
            return await self._streams(ctx, params.model_copy(update={"notifications": honoured}))
        finally:
            for uri in watched:
                await self._relaying.unwatch(uri)

    def close(self) -> None:
        """End every stream in order."""
        self._streams.close()


def _event_of(change: Change) -> ServerEvent:
    match change.kind:
        case ChangeKind.TOOLS:
            return ToolsListChanged()
        case ChangeKind.PROMPTS:
            return PromptsListChanged()
        case ChangeKind.RESOURCES:
            return ResourcesListChanged()
        case ChangeKind.UPDATED:
            return ResourceUpdated(change.uri)
