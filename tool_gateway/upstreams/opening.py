"""Opening a client for an upstream, over the transport that its spec names."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from functools import partial
from typing import Any

import httpx2
import mcp_types
from mcp import Client
from mcp.client.session import MessageHandlerFnT
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from tool_gateway.egress.reach import Reach
from tool_gateway.server_ports import ServerPlacement
from tool_gateway.upstreams.http import (
    CONNECT_SECONDS_MAX,
    JSON_BYTES_MAX,
    Wrap,
    contained_client,
    guarded_transport,
)
from tool_gateway.upstreams.plugged import plugged_server
from tool_gateway.upstreams.process import server_process
from tool_gateway.upstreams.questions import Questions
from tool_gateway.upstreams.spec import (
    HttpSpec,
    PluggedSpec,
    StdioSpec,
    Transport,
    UpstreamSpec,
)
from tool_gateway.upstreams.vitals import Vitals
from tool_gateway.upstreams.watched import watched

# Its stream stays open while nobody calls.
SSE_READ_SECONDS_MAX = 24 * 60 * 60.0
WE = mcp_types.Implementation(name="flyball", title="Flyball", version="1")


class Era(StrEnum):
    """Which era to speak: the newest that the server knows, or the one with sessions."""

    ANY = "auto"
    SESSIONS = "legacy"


@asynccontextmanager
async def opened(
    spec: UpstreamSpec,
    *,
    placed_as: str,
    placement: ServerPlacement,
    questions: Questions,
    on_message: MessageHandlerFnT,
    on_lost: Callable[[], None],
    vitals: Vitals,
    era: Era = Era.ANY,
    wrap: Wrap | None = None,
) -> AsyncIterator[Client]:
    """Yield a client that is connected to the upstream; `on_lost` is called at its end.

    `placed_as` names the domain of a server that is started; `vitals` is told of its life.
    `wrap` adds credentials to what goes to one that runs elsewhere.
    """
    match spec:
        case HttpSpec(transport=Transport.SSE):
            transport = sse_client(
                spec.url,
                headers=dict(spec.headers),
                sse_read_timeout=SSE_READ_SECONDS_MAX,
                httpx_client_factory=partial(_plain_client, reach=spec.reach, wrap=wrap),
            )
            async with _client(
                watched(transport, on_lost), questions, on_message, era=Era.SESSIONS
            ) as client:
                yield client
        case HttpSpec():
            async with contained_client(spec.headers, reach=spec.reach, wrap=wrap) as http:
                transport = streamable_http_client(
                    spec.url, http_client=http, max_sse_event_size=JSON_BYTES_MAX
                )
                async with _client(
                    watched(transport, on_lost), questions, on_message, era=era
                ) as client:
                    yield client
        case StdioSpec():
            process = server_process(spec, placed_as=placed_as, placement=placement, vitals=vitals)
            async with _client(watched(process, on_lost), questions, on_message, era=era) as client:
                yield client
        case PluggedSpec():
            plugged = plugged_server(spec)
            async with _client(watched(plugged, on_lost), questions, on_message, era=era) as client:
                yield client


def _client(
    transport: Any, questions: Questions, on_message: MessageHandlerFnT, *, era: Era
) -> Client:
    return Client(
        transport,
        mode=era.value,
        client_info=WE,
        sampling_callback=questions.sampling,
        sampling_capabilities=mcp_types.SamplingCapability(
            context=mcp_types.SamplingContextCapability(),
            tools=mcp_types.SamplingToolsCapability(),
        ),
        elicitation_callback=questions.elicitation,
        list_roots_callback=questions.roots,
        logging_callback=questions.log,
        message_handler=on_message,
        cache=None,
    )


def _plain_client(
    headers: dict[str, str] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
    *,
    reach: Reach,
    wrap: Wrap | None,
) -> httpx2.AsyncClient:
    """Return the HTTP client of the old transport, whose answers come on one stream."""
    return httpx2.AsyncClient(
        headers={**(headers or {}), "Accept-Encoding": "identity"},
        timeout=timeout or CONNECT_SECONDS_MAX,
        auth=auth,
        # Answers come on the stream; those to posts only say that these were taken.
        transport=guarded_transport(reach=reach, wrap=wrap, spare_posts=True),
        trust_env=False,
    )
