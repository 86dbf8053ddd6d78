"""What an open upstream offers, and what it says has changed."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import anyio
import mcp_types
from mcp import Client
from mcp.client.subscriptions import SubscriptionLost
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from governor.ids import UpstreamName
from governor.manifest import INSTRUCTIONS, Definition, prompt_part
from tool_gateway.changes import Change, ChangeKind
from tool_gateway.upstreams.whatever import sent_whole

logger = logging.getLogger(__name__)

TOOL_PAGES_MAX = 100
PROMPT_PAGES_MAX = 20


async def listed_tools(client: Client) -> list[Mapping[str, Any]]:
    """Return the definitions of the upstream's tools, just as it wrote them.

    Each page is asked for twice: the SDK's own listing, which keeps the schemas and headers
    that calls are checked and sent with, drops what its version of the protocol does not know.
    """
    tools: list[Mapping[str, Any]] = []
    if client.server_capabilities.tools is None:
        return tools
    cursor = None
    for _ in range(TOOL_PAGES_MAX):
        usable = await client.list_tools(cursor=cursor)
        names = {tool.name for tool in usable.tools}
        page = await sent_whole(client, "tools/list", {} if cursor is None else {"cursor": cursor})
        tools.extend(tool for tool in page["tools"] if tool["name"] in names)
        cursor = usable.next_cursor
        if cursor is None:
            break
    return tools


async def listed_parts(client: Client, *, instructions: str | None) -> dict[str, Definition]:
    """Return what a manifest holds besides tools: prompts, and the server's words on itself.

    Prompts that it does not list now are none: what cannot be compared is not exposed.
    """
    parts: dict[str, Definition] = {}
    if instructions:
        parts[INSTRUCTIONS] = {"description": instructions}
    if client.server_capabilities.prompts is None:
        return parts
    params: dict[str, Any] = {}
    try:
        for _ in range(PROMPT_PAGES_MAX):
            page = await sent_whole(client, "prompts/list", params)
            parts |= {prompt_part(str(one["name"])): one for one in page["prompts"]}
            if page.get("nextCursor") is None:
                break
            params = {"cursor": page["nextCursor"]}
    except (MCPError, ValidationError) as error:
        logger.warning("its prompts cannot be listed, so none is exposed: %s", error)
    return parts


class Listener:
    """Hears what one connection says has changed, in either era."""

    def __init__(
        self,
        name: UpstreamName,
        *,
        publish: Callable[[Change], None],
        watching: Iterable[str] = (),
    ) -> None:
        """Hear nothing yet; `publish` is told of each change but those of the tools.

        Tools are listed again before anybody hears that they changed. What is in `watching` is
        watched from the first connection on.
        """
        self._name = name
        self._publish = publish
        self._watched = set(watching)
        self._rewatch = anyio.Event()
        self.tools_changed = anyio.Event()

    @property
    def watched(self) -> frozenset[str]:
        """Return the resources that are watched."""
        return frozenset(self._watched)

    def hear(self, message: object) -> None:
        """Take note of a notification of the upstream's."""
        match message:
            case mcp_types.ToolListChangedNotification():
                self.tools_changed.set()
            case mcp_types.PromptListChangedNotification():
                # They are pinned beside the tools, and listed again with them.
                self.tools_changed.set()
                self._publish(Change(kind=ChangeKind.PROMPTS))
            case mcp_types.ResourceListChangedNotification():
                self._publish(Change(kind=ChangeKind.RESOURCES))
            case mcp_types.ResourceUpdatedNotification():
                self._publish(Change(kind=ChangeKind.UPDATED, uri=message.params.uri))
            case _:
                pass

    async def watch(self, client: Client | None, uri: str) -> None:
        """Hear of changes to a resource; without a client, from the next connection on.

        Raises:
            MCPError: the upstream refuses.
        """
        if client is not None and client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await _subscribe(client, "resources/subscribe", uri)
        self._watched.add(uri)
        self._rewatch.set()

    async def unwatch(self, client: Client | None, uri: str) -> None:
        """Hear no more of a resource."""
        self._watched.discard(uri)
        self._rewatch.set()
        if client is not None and client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            await _subscribe(client, "resources/unsubscribe", uri)

    async def listen(self, client: Client) -> None:
        """Hear the connection until it ends."""
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            for uri in sorted(self._watched):
                try:
                    await _subscribe(client, "resources/subscribe", uri)
                except MCPError as error:
                    logger.info("upstream %s: %s is watched no more: %s", self._name, uri, error)
            return
        try:
            while True:
                self._rewatch = anyio.Event()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._listen_once, client)
                    await self._rewatch.wait()
                    tasks.cancel_scope.cancel()
        except* (MCPError, SubscriptionLost, TimeoutError) as group:
            lost = group.exceptions[0]
            logger.info("upstream %s does not tell of its changes: %s", self._name, lost)

    async def _listen_once(self, client: Client) -> None:
        offers = client.server_capabilities
        async with client.listen(
            tools_list_changed=bool(offers.tools and offers.tools.list_changed),
            prompts_list_changed=bool(offers.prompts and offers.prompts.list_changed),
            resources_list_changed=bool(offers.resources and offers.resources.list_changed),
            resource_subscriptions=sorted(self._watched),
        ) as changes:
            # The stream need only stay open: what comes on it is heard as notifications.
            async for _ in changes:
                pass
        raise SubscriptionLost("the upstream closed it")


async def _subscribe(client: Client, method: str, uri: str) -> None:
    await sent_whole(client, method, {"uri": uri})
