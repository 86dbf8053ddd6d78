"""Upstreams of the kinds that plug-ins bring, opened when they are connected to."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from runtime.plugins.failing import PluginError, faults_contained
from runtime.plugins.loading import Group, entry_point_of
from runtime.plugins.protocols import ToolServer
from tool_gateway import telemetry
from tool_gateway.server_ports import Opening, PluggedServer

# Whoever takes longer to begin or to end is taken for one that never does.
OPEN_SECONDS_MAX = 60.0
CLOSE_SECONDS_MAX = 10.0


def opening_of(
    kind: str,
    *,
    name: str,
    settings: Mapping[str, Any],
    close_seconds_max: float = CLOSE_SECONDS_MAX,
) -> Opening:
    """Return what opens an upstream of a kind; nothing is loaded before that."""
    return partial(_opened, kind, name, dict(settings), close_seconds_max=close_seconds_max)


@asynccontextmanager
async def _opened(
    kind: str,
    name: str,
    settings: Mapping[str, Any],
    *,
    close_seconds_max: float = CLOSE_SECONDS_MAX,
) -> AsyncIterator[PluggedServer]:
    """Yield a server of the kind.

    Raises:
        ConfigError: there is no such kind.
        PluginError: it cannot be opened.
    """
    point = entry_point_of(Group.UPSTREAM_KIND, kind)
    try:
        with faults_contained():
            opening: AbstractAsyncContextManager[ToolServer] = point.load()(name, dict(settings))
            # No scope of ours: one that the plug-in opens here and closes later would cross it.
            async with asyncio.timeout(OPEN_SECONDS_MAX):
                server = await opening.__aenter__()
    except PluginError as error:
        raise _failed(kind, error) from error
    try:
        yield _Server(server)
    finally:
        try:
            with faults_contained():
                async with asyncio.timeout(close_seconds_max):
                    await opening.__aexit__(None, None, None)
        except PluginError as error:
            raise _failed(kind, error) from error


@dataclass(frozen=True, slots=True)
class _Server:
    """A plug-in's server, whose failures are answers."""

    server: ToolServer

    async def tools(self) -> Sequence[Mapping[str, object]]:
        """Return the definitions of its tools.

        Raises:
            PluginError: it does not say.
        """
        try:
            with faults_contained():
                return await self.server.tools()
        except PluginError:
            telemetry.count_failure("plugin")
            raise

    async def call(self, tool: str, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Return the result of a call, which says so where it failed."""
        try:
            with faults_contained():
                answer = await self.server.call(tool, arguments)
        except PluginError as error:
            telemetry.count_failure("plugin")
            return {**_text(str(error)), "isError": True}
        return _text(answer) if isinstance(answer, str) else answer


def _text(text: str) -> dict[str, object]:
    return {"content": [{"type": "text", "text": text}]}


def _failed(kind: str, error: PluginError) -> PluginError:
    telemetry.count_failure("plugin")
    return PluginError(f"the kind {kind!r} failed: {error}")
