"""Upstreams of the kinds that plug-ins bring, opened when they are connected to."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from runtime.plugins.failing import PluginError, contained, faults_contained
from runtime.plugins.loading import Group, entry_point_of
from runtime.plugins.protocols import ToolServer
from runtime.strangers import NotEndingError, begun, ended, resting
from tool_gateway import telemetry
from tool_gateway.server_ports import Opening, PluggedServer

# Whoever takes longer to begin or to end is taken for one that never does.
OPEN_SECONDS_MAX = 60.0
CLOSE_SECONDS_MAX = 5.0


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
    life = _Life(lambda: point.load()(name, dict(settings)))
    try:
        task = begun(f"plug-in {_task_name(kind, name)}", life.lived)
    except NotEndingError as error:
        raise _failed(kind, str(error)) from error
    try:
        with anyio.move_on_after(OPEN_SECONDS_MAX):
            await life.is_settled.wait()
        if life.server is None:
            raise _failed(kind, life.fault or f"no answer within {OPEN_SECONDS_MAX:.0f} s")
        with anyio.CancelScope() as while_it_lives:
            task.add_done_callback(lambda _: while_it_lives.cancel())
            yield _Server(life.server, _task_name(kind, name))
        if while_it_lives.cancelled_caught:
            # Whoever is connected to it hears of that, and connects again.
            raise _failed(kind, life.fault or "it ended by itself")
    finally:
        if life.server is None or task.done():
            await ended(task)
        elif fault := await _closed(life, task, seconds_max=close_seconds_max):
            raise _failed(kind, fault)


class _Life:
    """What a plug-in's upstream does in its one task: what it opens there it closes there."""

    def __init__(self, made: Callable[[], AbstractAsyncContextManager[ToolServer]]) -> None:
        """Take what makes it; nothing is made yet."""
        self._made = made
        self.server: ToolServer | None = None
        self.fault = ""
        self.is_settled = asyncio.Event()
        self.is_over = asyncio.Event()

    async def lived(self) -> None:
        """Open it, wait until it is over, and close it; a failure of its own ends it too."""
        try:
            with faults_contained():
                async with self._made() as self.server:
                    self.is_settled.set()
                    with resting():
                        await self.is_over.wait()
        except PluginError as error:
            self.fault = str(error)
        finally:
            self.is_settled.set()


async def _closed(life: _Life, task: "asyncio.Task[None]", *, seconds_max: float) -> str:
    """Let it close, undisturbed for a while, and return why it did not as it should."""
    life.is_over.set()
    with anyio.CancelScope(shield=True):
        await asyncio.wait([task], timeout=seconds_max)
    if not task.done():
        await ended(task)
        return f"it was not closed after {seconds_max:g} s"
    return life.fault


@dataclass(frozen=True, slots=True)
class _Server:
    """A plug-in's server, whose failures are answers."""

    server: ToolServer
    task_name: str

    async def tools(self) -> Sequence[Mapping[str, object]]:
        """Return the definitions of its tools.

        Raises:
            PluginError: it does not say.
        """
        try:
            return await contained(self.task_name, self.server.tools)
        except PluginError:
            telemetry.count_failure("plugin")
            raise

    async def call(self, tool: str, arguments: Mapping[str, object]) -> Mapping[str, object]:
        """Return the result of a call, which says so where it failed."""
        try:
            answer = await contained(self.task_name, partial(self.server.call, tool, arguments))
        except PluginError as error:
            telemetry.count_failure("plugin")
            return {**_text(str(error)), "isError": True}
        return _text(answer) if isinstance(answer, str) else answer


def _task_name(kind: str, upstream: str) -> str:
    """Return what its tasks are counted by: what one leaves behind stops no other of its kind."""
    return f"{kind} (upstream {upstream})"


def _text(text: str) -> dict[str, object]:
    return {"content": [{"type": "text", "text": text}]}


def _failed(kind: str, why: str) -> PluginError:
    telemetry.count_failure("plugin")
    return PluginError(f"the kind {kind!r} failed: {why}")
