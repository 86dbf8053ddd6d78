"""Agents that are told of MCP servers in a way of their own, started by `flyball run`."""

import sys
from pathlib import Path

import pytest
from scenarios.clients import House
from scenarios.launched import launched, visited, workplace

from tests.clients import playing

pytestmark = [pytest.mark.slow, pytest.mark.requirement("clients.known-agents")]

# What Claude Code does with its words and its environment, as far as Flyball is concerned.
CLAUDE = """
import argparse, json, pathlib, anthropic, anyio, httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

parser = argparse.ArgumentParser()
parser.add_argument("--mcp-config", action="append")
parser.add_argument("-p", dest="prompt")
words = parser.parse_args()

async def main():
    (server,) = json.loads(pathlib.Path(words.mcp_config[0]).read_text())["mcpServers"].values()
    assert server["type"] == "http"
    async with (
        httpx2.AsyncClient(headers=server["headers"], trust_env=False, timeout=60) as http,
        Client(streamable_http_client(server["url"], http_client=http)) as tools,
    ):
        asked = {"role": "user", "content": words.prompt}
        model = anthropic.AsyncAnthropic()
        said = await model.messages.create(model="claude", max_tokens=99, messages=[asked])
        (use,) = said.content
        result = await tools.call_tool(use.name, use.input)
        print(result.content[0].text, words.mcp_config[0])

anyio.run(main)
"""


def test_claude_finds_its_model_and_its_tools_in_the_sidecar(house: House, tmp_path: Path) -> None:
    sidecar = visited(house.sidecar, tmp_path)
    claude = workplace(sidecar) / "claude"
    claude.write_text(f"#!{sys.executable}\n{CLAUDE}", encoding="utf-8")
    claude.chmod(0o755)
    house.upstream.plays(playing.messages()[0])

    ended = launched(sidecar, "--json", "--", str(claude), "-p", "Why?")

    assert ended.status == 0, ended.told
    *said, path = ended.out.splitlines()[0].split()
    assert " ".join(said) == playing.ARGUMENTS["text"]
    assert not Path(path).parent.exists()
    assert house.upstream.received[-1].body["messages"][0]["content"] == "Why?"
