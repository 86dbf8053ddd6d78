"""The transport of 2024-11-05, in front and behind."""

from typing import Any

import mcp_types
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.server.transport_security import TransportSecuritySettings

from governor.events import Settled
from governor.ids import UpstreamName
from tests.tool_gateway.protocol.everything import Everything
from tests.tool_gateway.protocol.stage import (
    NEW,
    OLD,
    STATELESS,
    Answers,
    Stage,
    served,
    stage,
    text_of,
)
from tool_gateway.upstreams.spec import HttpSpec, Transport

pytestmark = [pytest.mark.anyio, pytest.mark.requirement("protocol.any-era-with-any-era")]
OPEN = TransportSecuritySettings(enable_dns_rebinding_protection=False)


@pytest.mark.parametrize("mode", [NEW, OLD])
async def test_a_server_of_the_old_transport_serves_clients_of_every_era(mode: str) -> None:
    answers, everything = Answers(), Everything()

    async with served(everything.server.sse_app(transport_security=OPEN)) as url:
        spec = HttpSpec(name=UpstreamName("one"), url=f"{url}/sse", transport=Transport.SSE)
        async with Stage().serving(spec) as on:
            async with on.client(mode, answers=answers) as client:
                echoed = await client.call_tool("one__echo", {"text": "old"})
                named = await client.call_tool("one__ask_name", {})
            ended = [event for event in on.house.ledger.events if isinstance(event, Settled)]

    assert text_of(echoed) == "old"
    assert text_of(named) == "hello Ada"
    assert len(ended) == 2


async def test_a_client_of_the_old_transport_uses_a_server_of_the_newest_era() -> None:
    answers = Answers()

    async with stage(versions=STATELESS) as on:
        transport: Any = sse_client(f"{on.url}/sse", headers={"x-who": "bob"})
        async with Client(
            transport, mode="legacy", cache=None, elicitation_callback=answers.elicit
        ) as client:
            named = await client.call_tool("one__ask_name", {})
            note = await client.read_resource("mem://note")

    assert text_of(named) == "hello Ada"
    assert isinstance(note.contents[0], mcp_types.TextResourceContents)
    assert {record.chain.agent for record in on.house.ledger.records} == {"bob"}
