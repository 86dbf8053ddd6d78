"""The experience memory through the protocol's own client, with agents on two processes."""

import base64
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import anyio
import pytest
from mcp import MCPError
from scenarios.process import SidecarProcess, text_of

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SECONDS_MAX = 60
ERAS = ("auto", "legacy")
NOWHERE = "flyball://memory/exp_nosuchone"
NOTE = "The staging database is restored from the nightly dump of the finance cluster.\n"
BYTES = bytes(range(256)) * 100


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SidecarProcess]:
    """A sidecar of two processes that tests of both eras share."""
    process = SidecarProcess(folder=tmp_path_factory.mktemp("crew"), workers=2)
    process.start()
    try:
        yield process
    finally:
        process.stop()


def shape_of(result: Any) -> dict[str, Any]:
    assert not result.is_error, text_of(result)
    shape: dict[str, Any] = result.structured_content
    return shape


async def watched_of(client: Any, mode: str, uris: Sequence[str]) -> list[str]:
    """Return those of some resources that a client of an era is let subscribe to."""
    if mode != "legacy":
        async with client.listen(resource_subscriptions=list(uris)) as stream:
            return list(stream.honored.resource_subscriptions)
    found = []
    for uri in uris:
        with suppress(MCPError):
            await client.subscribe_resource(uri)
            found.append(uri)
    return found


@pytest.mark.requirement("memory.read-back")
@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_of_either_era_writes_finds_and_reads(
    crew: SidecarProcess, mode: str
) -> None:
    with anyio.fail_after(SECONDS_MAX):
        async with crew.agent(f"notes-{mode}", mode=mode) as client:
            kept = shape_of(await client.call_tool("memory_write", {"content": f"{mode}: {NOTE}"}))
        # Another connection, and as may be another process.
        async with crew.agent(f"later-{mode}", mode=mode) as client:
            found = await client.call_tool(
                "memory_search", {"query": f"{mode} staging database restored from which dump"}
            )
            read = await client.call_tool("memory_read", {"index": kept["index"]})

    hits = shape_of(found)["hits"]
    assert hits[0]["index"] == kept["index"]
    assert NOTE in text_of(found)
    assert [block.text for block in read.content][1] == f"{mode}: {NOTE}"
    assert shape_of(read)["content"] == f"{mode}: {NOTE}"


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
@pytest.mark.requirement("memory.resources")
@pytest.mark.parametrize("mode", ERAS)
async def test_experiences_are_resources_by_an_address_that_stays(
    crew: SidecarProcess, mode: str
) -> None:
    encoded = base64.b64encode(BYTES).decode()
    with anyio.fail_after(SECONDS_MAX):
        async with crew.agent(f"resources-{mode}", mode=mode) as client:
            text = shape_of(await client.call_tool("memory_write", {"content": NOTE}))
            blob = shape_of(
                await client.call_tool(
                    "memory_write",
                    {"content": encoded, "encoding": "base64", "media_type": "image/x-odd"},
                )
            )
            listed = {str(one.uri) for one in (await client.list_resources()).resources}
            templates = (await client.list_resource_templates()).resource_templates
            (as_text,) = (await client.read_resource(text["uri"])).contents
            (as_blob,) = (await client.read_resource(blob["uri"])).contents
            with pytest.raises(Exception, match="unknown resource"):
                await client.read_resource(NOWHERE)
            watched = await watched_of(client, mode, (text["uri"], NOWHERE))

    assert {text["uri"], blob["uri"]} <= listed
    assert [one.uri_template for one in templates] == ["flyball://memory/{index}"]
    assert watched == [text["uri"]]
    assert as_text.text == NOTE
    assert base64.b64decode(as_blob.blob) == BYTES
    assert as_blob.mime_type == "image/x-odd"
    assert as_text.meta["flyball/experience"]["role"] == "data"


@pytest.mark.requirement("memory.recorded")
async def test_what_is_too_large_to_show_is_remembered_as_its_tools(crew: SidecarProcess) -> None:
    with anyio.fail_after(SECONDS_MAX):
        async with crew.agent("recorded") as client:
            cut = await client.call_tool("worker__big", {"lines": 3000})
            index = cut.meta["flyball/experience"]["index"]
            found = await client.call_tool(
                "memory_read", {"index": index, "grep": "line 2999:", "max_tokens": 100}
            )
            expanded = await client.call_tool("memory_expand", {"index": index})

    assert shape_of(found)["content"] == "3000:line 2999: größer als erlaubt"
    (hit,) = shape_of(expanded)["hits"]
    assert (hit["kind"], hit["source"], hit["is_whole"]) == (
        "tool_result",
        "tool worker__big",
        False,
    )
    assert hit["lane"] in {"tool", "web"}
