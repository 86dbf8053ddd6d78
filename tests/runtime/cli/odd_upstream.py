"""A kind of upstreams that ends as it should, or not, by its settings."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel


class Nothing:
    """A server without tools."""

    async def tools(self) -> Sequence[Mapping[str, Any]]:
        return []

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> str:
        return f"{tool} {arguments}"


@asynccontextmanager
async def opened(name: str, settings: Mapping[str, Any]) -> AsyncIterator[Nothing]:
    try:
        yield Nothing()
    finally:
        if settings["how"] == "blocks":
            block()
        while settings["how"] == "swallows":
            with suppress(BaseException):
                await anyio.sleep_forever()
        # A wait of its own, which nobody disturbs.
        await anyio.lowlevel.checkpoint()
        tell(Path(settings["told"]), f"{name} is closed\n")


def block() -> None:
    Path("blocks").touch()
    time.sleep(3_600)


def tell(where: Path, what: str) -> None:
    where.write_text(what, encoding="utf-8")
