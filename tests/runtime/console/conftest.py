"""A console over a real store, asked without a browser, with a clock that tests turn."""

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from runtime.admin import create_admin_app
from runtime.console import ConsoleParts, WithConsole, console_app
from runtime.console.door import COOKIE
from tests.runtime.admin.admin_opening import opened_world
from tests.runtime.admin.admin_world import Clock, World

ORIGIN = "http://admin"
IDLE_MS = 60_000


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def world(begun_state: Path) -> AsyncIterator[World]:
    async with opened_world(begun_state, Clock()) as opened:
        yield opened


@dataclass(frozen=True, kw_only=True)
class Desk:
    """A console, a browser's requests to it, and the world behind."""

    world: World
    browser: httpx.AsyncClient

    async def get(self, path: str = "", **more: object) -> httpx.Response:
        return await self.browser.get(f"/console{path}", **more)  # type: ignore[arg-type]

    async def post(
        self, path: str, fields: dict[str, str] | None = None, *, origin: str = ORIGIN
    ) -> httpx.Response:
        headers = {"Origin": origin} if origin else {}
        return await self.browser.post(f"/console{path}", data=fields or {}, headers=headers)

    async def sign_in(self, token: str | None = None) -> httpx.Response:
        return await self.post("/login", {"token": token or self.world.admin_secret})

    async def csrf(self) -> str:
        """Return the token that the forms of a page carry."""
        (found, *_) = re.findall(r'name="csrf" value="([^"]+)"', (await self.get()).text)
        return str(found)

    @property
    def cookie(self) -> str | None:
        return self.browser.cookies.get(COOKIE)


@pytest.fixture
async def desk(world: World) -> AsyncIterator[Desk]:
    drawn = iter(range(1_000_000))
    api = create_admin_app(world.parts)
    parts = ConsoleParts(
        api=api,
        doorkeeper=world.parts.store.principals,
        visits=world.parts.store.visits,
        now_ms=world.clock.now_ms,
        draw=lambda: f"drawn-{next(drawn)}",
        idle_ms=IDLE_MS,
    )
    transport = httpx.ASGITransport(
        WithConsole(api, console_app(parts)), raise_app_exceptions=False
    )
    async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as browser:
        yield Desk(world=world, browser=browser)
