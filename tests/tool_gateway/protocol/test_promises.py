"""An upstream's results are held against its schemas on every way that they can come."""

from dataclasses import replace
from typing import Any

import pytest

from governor.call import CallStatus
from tests.tool_gateway.protocol.stage import NEW, OLD, SESSIONS, STATELESS, Stage, stage, text_of
from tool_gateway.results import SCHEMA_META

pytestmark = pytest.mark.anyio


def promise_a_number(on: Stage) -> None:
    """Have the one upstream say that its echo answers with a number."""
    (connection,) = on.fleet.connections
    promised = {
        "type": "object",
        "properties": {"result": {"type": "integer"}},
        "required": ["result"],
    }
    connection.entries = tuple(
        replace(entry, definition={**entry.definition, "outputSchema": promised})
        if entry.original == "echo"
        else entry
        for entry in connection.entries
    )
    on.fleet._restock()


@pytest.mark.requirement("content.promises-are-kept")
@pytest.mark.parametrize("versions", [SESSIONS, STATELESS], ids=["sessions", "stateless"])
@pytest.mark.parametrize("mode", [OLD, NEW])
@pytest.mark.parametrize("has_progress", [True, False])
async def test_a_broken_promise_is_told_whichever_way_it_came(
    versions: tuple[str, ...], mode: str, *, has_progress: bool
) -> None:
    async def hear(*_: Any) -> None:
        pass

    async with stage(versions=versions) as on:
        promise_a_number(on)
        async with on.client(mode) as client:
            await client.list_tools()
            told = hear if has_progress else None
            result = await client.call_tool("one__echo", {"text": "x"}, progress_callback=told)

    assert result.is_error
    assert "structuredContent['result']: 'x' is not of type 'integer'" in text_of(result)
    assert SCHEMA_META in (result.meta or {})
    assert [record.status for record in on.house.ledger.records] == [CallStatus.UPSTREAM_FAILED]
    assert on.house.ledger.remaining() == 99
