"""Servers of kinds that plug-ins bring: what they raise is an answer, and they end in time."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Self

import anyio
import anyio.lowlevel
import pytest

from runtime import strangers
from runtime.plugins import upstream_kinds
from runtime.plugins.failing import PluginError
from runtime.plugins.upstream_kinds import opening_of

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("plugins.contained")]
SECONDS_MAX = 60


class Kind:
    """A kind, its upstream and its server at once; each raises what it is told to."""

    def __init__(self) -> None:
        self.raises: BaseException = RuntimeError("nothing")
        self.hangs = False
        self.was_closed = False
        self.was_told = False

    def __call__(self, name: str, settings: Mapping[str, Any]) -> Self:
        return self

    async def __aenter__(self) -> Self:
        # What a plug-in opens here and closes there is nested in nothing of ours.
        self.tasks = anyio.create_task_group()
        await self.tasks.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.was_told = True
        await self.tasks.__aexit__(None, None, None)
        if self.hangs:
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
        self.was_closed = True

    async def tools(self) -> list[dict[str, Any]]:
        raise self.raises

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        raise self.raises


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> Kind:
    made = Kind()
    point = SimpleNamespace(load=lambda: made)
    monkeypatch.setattr(upstream_kinds, "entry_point_of", lambda *_: point)
    return made


@pytest.mark.parametrize(
    "error", [asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(1)], ids=repr
)
async def test_whatever_a_server_raises_fails_the_one_call(
    kind: Kind, error: BaseException
) -> None:
    kind.raises = error

    with anyio.fail_after(SECONDS_MAX):
        async with opening_of("odd", name="up", settings={})() as server:
            answer = await server.call("fly", {})
            with pytest.raises(PluginError, match=type(error).__name__):
                await server.tools()

    assert answer["isError"] is True
    assert type(error).__name__ in str(answer["content"])


async def test_a_server_that_does_not_end_is_not_waited_for_and_is_told(kind: Kind) -> None:
    kind.hangs = True
    opened = opening_of("odd", name="up", settings={}, close_seconds_max=0.05)

    with anyio.fail_after(SECONDS_MAX), pytest.raises(PluginError, match="'odd' failed"):
        async with opened():
            pass


@pytest.mark.requirement("stop.bounded")
async def test_a_server_closes_undisturbed_although_whoever_had_it_open_is_cancelled(
    kind: Kind,
) -> None:
    is_open = anyio.Event()

    async def used() -> None:
        async with opening_of("odd", name="up", settings={})():
            is_open.set()
            await anyio.sleep_forever()

    with anyio.fail_after(SECONDS_MAX):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(used)
            await is_open.wait()
            tasks.cancel_scope.cancel()

    assert kind.was_closed


async def test_a_server_whose_own_task_fails_is_closed_and_whoever_had_it_open_is_told(
    kind: Kind,
) -> None:
    async def fail() -> None:
        raise ConnectionError("the line is down")

    async def used() -> None:
        async with opening_of("odd", name="up", settings={})():
            kind.tasks.start_soon(fail)
            await anyio.sleep_forever()

    with anyio.fail_after(SECONDS_MAX), pytest.raises(PluginError, match="'odd' failed"):
        await used()

    assert kind.was_told


class Deaf(Kind):
    """A kind whose upstream `bad` swallows that its calls are told to end."""

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.is_bad = name == "bad"
        self.has_begun = anyio.Event()
        self.may_end = anyio.Event()

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        self.has_begun.set()
        while self.is_bad and not self.may_end.is_set():
            with suppress(BaseException):
                await self.may_end.wait()
        return "yes"


@pytest.mark.requirement("stop.bounded")
async def test_what_one_upstream_leaves_behind_stops_no_other_of_its_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = {name: Deaf(name) for name in ("bad", "good")}
    point = SimpleNamespace(load=lambda: lambda name, _settings: made[name])
    monkeypatch.setattr(upstream_kinds, "entry_point_of", lambda *_: point)
    monkeypatch.setattr(strangers, "LEFT_MAX", 1)
    monkeypatch.setattr(strangers, "GRACE_SECONDS", 0.01)

    with anyio.fail_after(SECONDS_MAX):
        async with (
            opening_of("odd", name="bad", settings={})() as bad,
            opening_of("odd", name="good", settings={})() as good,
        ):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(bad.call, "fly", {})
                await made["bad"].has_begun.wait()
                tasks.cancel_scope.cancel()
            refused = await bad.call("fly", {})
            answered = await good.call("fly", {})
            made["bad"].may_end.set()

    assert refused["isError"] is True
    assert answered == {"content": [{"type": "text", "text": "yes"}]}
