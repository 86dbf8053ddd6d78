"""Upstreams of the kinds that plug-ins bring, opened when they are connected to."""

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


def opening_of(kind: str, *, name: str, settings: Mapping[str, Any]) -> Opening:
    """Return what opens an upstream of a kind; nothing is loaded before that."""
    return partial(_opened, kind, name, dict(settings))


@asynccontextmanager
async def _opened(
    kind: str, name: str, settings: Mapping[str, Any]
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
            server = await opening.__aenter__()
    except PluginError as error:
        raise _failed(kind, error) from error
    try:
        yield _Server(server)
    finally:
        try:
            with faults_contained():
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
