"""The client that the suite's client scenarios run: the SDK's, through a real sidecar.

The suite starts this with the URL of its own server, and checks there what the sidecar sends.
"""

import json
import os
import sys
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import mcp_types
from mcp import Client
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from sidecar import sidecar_before, sidecar_with

VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION")
MODE: Any = "auto" if VERSION in MODERN_PROTOCOL_VERSIONS else "legacy"


async def elicit(_: Any, params: Any) -> mcp_types.ElicitResult:
    """Accept every form with its defaults."""
    properties = params.requested_schema.get("properties", {})
    content = {name: one["default"] for name, one in properties.items() if "default" in one}
    return mcp_types.ElicitResult(action="accept", content=content)


async def sample(_: Any, __: Any) -> mcp_types.CreateMessageResult:
    """Say nothing."""
    said = mcp_types.TextContent(type="text", text="")
    return mcp_types.CreateMessageResult(role="assistant", content=said, model="none")


async def roots(_: Any) -> mcp_types.ListRootsResult:
    """Have none."""
    return mcp_types.ListRootsResult(roots=[])


def filled(schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments for everything that a tool requires."""
    values = {"string": "x", "integer": 1, "number": 1.5, "boolean": True, "null": None}
    found = {}
    for name in schema.get("required", []):
        kind = schema["properties"][name].get("type", "string")
        found[name] = values.get(kind, {} if kind == "object" else [])
    return found


async def call_all(client: Client) -> None:
    """Call every tool that the sidecar lists."""
    for tool in (await client.list_tools()).tools:
        await client.call_tool(tool.name, filled(tool.input_schema))


async def list_all(client: Client) -> None:
    """List the tools."""
    await client.list_tools()


async def add(client: Client) -> None:
    """Add two numbers."""
    for tool in (await client.list_tools()).tools:
        await client.call_tool(tool.name, {"a": 5, "b": 3})


async def use_all(client: Client) -> None:
    """Use a tool, a resource and a prompt."""
    await call_all(client)
    for resource in (await client.list_resources()).resources:
        await client.read_resource(resource.uri)
    for prompt in (await client.list_prompts()).prompts:
        await client.get_prompt(prompt.name)


async def replay(client: Client) -> None:
    """Call what the suite says to call."""
    await client.list_tools()
    for call in json.loads(os.environ["MCP_CONFORMANCE_CONTEXT"])["toolCalls"]:
        given = {key: value for key, value in call["arguments"].items() if value is not None}
        await client.call_tool(call["name"], given)


async def echo_schema(client: Client) -> None:
    """Send a tool's schema back."""
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    schema = tools["json_schema_2020_12_tool"].input_schema
    await client.call_tool("json_schema_echo", {"schema": schema})


SCENARIOS: dict[str, Callable[[Client], Coroutine[Any, Any, None]]] = {
    "initialize": list_all,
    "tools_call": add,
    "elicitation-sep1034-client-defaults": call_all,
    "sse-retry": call_all,
    "request-metadata": add,
    "sep-2322-client-request-state": call_all,
    "http-standard-headers": use_all,
    "http-custom-headers": replay,
    "http-invalid-tool-headers": call_all,
    "json-schema-ref-no-deref": list_all,
    "json-schema-2020-12-preservation": echo_schema,
}


AUTH = "auth/"


def upstream_with_auth(url: str, folder: Path) -> str:
    """Return the table of an upstream that is sent tokens, as an operator would write it."""
    told = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    kind, named = "client_credentials", "client_secret_file"
    secret = told.get("client_secret") or "none"
    if "private_key_pem" in told:
        named, secret = "private_key_file", told["private_key_pem"]
    elif "valid_jwt" in told:
        kind, named, secret = "workload_identity", "assertion_file", told["valid_jwt"]
    (folder / "secret").write_text(secret)
    issuer = told.get("issuer")
    found = "discover = true" if issuer is None else f"issuer = {json.dumps(issuer)}"
    return f"""
[[upstream]]
name = "sole"
url = {json.dumps(url)}
prefix = "none"

[upstream.auth]
kind = "{kind}"
client_id = {json.dumps(told.get("client_id") or "flyball")}
{named} = {json.dumps(str(folder / "secret"))}
{found}
# The suite's servers are all on this machine.
allow_networks = ["127.0.0.1", "::1"]
"""


async def play(url: str, scenario: str) -> None:
    """Play a scenario as a client of the era that its server speaks."""
    async with Client(
        url,
        mode=MODE,
        elicitation_callback=elicit,
        sampling_callback=sample,
        list_roots_callback=roots,
        cache=None,
    ) as client:
        await SCENARIOS.get(scenario, call_all)(client)


def main() -> None:
    """Put a sidecar before the suite's server and play the scenario through it."""
    scenario, server = os.environ["MCP_CONFORMANCE_SCENARIO"], sys.argv[-1]
    with tempfile.TemporaryDirectory(prefix="flyball-conformance-") as made:
        folder = Path(made)
        if scenario.startswith(AUTH):
            before = sidecar_with(upstream_with_auth(server, folder), folder)
        else:
            before = sidecar_before(server, folder)
        with before as url:
            anyio.run(play, url, scenario)


if __name__ == "__main__":
    main()
