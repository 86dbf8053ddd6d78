"""A sidecar whose model providers are scripted, and the providers' own clients of it."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anthropic
import anyio
import openai
from scenarios.process import SidecarProcess

from tests.model_upstream.golden import Golden
from tests.model_upstream.upstream import Received, Upstream, an_upstream

SECONDS_MAX = 60
KEY = "sk-provider-0123456789abcdef"


@dataclass
class House:
    """A sidecar, what it asks, and clients of it, one session for each."""

    sidecar: SidecarProcess
    upstream: Upstream
    # What each client is made with, where a test says nothing else.
    options: Mapping[str, Any] = field(default_factory=dict)
    sessions: int = 0
    # Of the last call that answered: the clients themselves show no headers.
    last_call: str = ""

    async def _hear(self, response: Any) -> None:
        self.last_call = response.headers.get("flyball-call", self.last_call)

    @property
    def _agents(self) -> str:
        return self.sidecar.urls["agents"].removesuffix("/mcp")

    def _session(self) -> dict[str, str]:
        self.sessions += 1
        return {"Flyball-Session": f"session-{self.sessions}"}

    def openai(self, **more: Any) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(
            base_url=f"{self._agents}/v1",
            api_key=self.sidecar.token("agent"),
            default_headers=self._session(),
            http_client=openai.DefaultAsyncHttpxClient(event_hooks={"response": [self._hear]}),
            **{**self.options, **more},
        )

    def anthropic(self, **more: Any) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(
            base_url=self._agents,
            api_key=self.sidecar.token("agent"),
            default_headers=self._session(),
            http_client=anthropic.DefaultAsyncHttpxClient(event_hooks={"response": [self._hear]}),
            **{**self.options, **more},
        )

    @property
    def last(self) -> Received:
        return self.upstream.received[-1]

    async def charged(self) -> tuple[int, int]:
        """Return what the last call was charged, in tokens, once it is recorded.

        A client may leave a stream at its last event, before the call has ended.
        """
        async with self.sidecar.admin() as admin:
            answer = await admin.get(f"calls/{self.last_call}")
            while answer.status_code == 404:
                await anyio.sleep(0.02)
                answer = await admin.get(f"calls/{self.last_call}")
        assert answer.status_code == 200, answer.text
        charged = answer.json()["charged"]
        return charged["input_tokens"], charged["output_tokens"]


@asynccontextmanager
async def a_house(folder: Path, config: str, **options: Any) -> AsyncIterator[House]:
    """Run a sidecar with `config`, in which {url} is the scripted provider."""
    async with an_upstream() as upstream:
        sidecar = SidecarProcess(
            folder=folder,
            extra=config.format(url=upstream.base_url),
            env={**os.environ, "SCRIPTED_KEY": KEY},
        )
        await anyio.to_thread.run_sync(sidecar.start)
        try:
            yield House(sidecar=sidecar, upstream=upstream, options=options)
        finally:
            await anyio.to_thread.run_sync(sidecar.stop)


def truth_of(golden: Golden) -> tuple[int, int]:
    return golden.truth.input_tokens, golden.truth.output_tokens
