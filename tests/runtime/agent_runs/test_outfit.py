"""What agents are given at their start, by the program that they are."""

import json
import stat
from pathlib import Path

import pytest

from runtime.agent_runs.outfit import (
    Gate,
    mcp_config_of,
    outfit_of,
    place_for_config,
    write_config,
)

GATE = Gate(base_url="http://h:1", session="s", key="k-1", mcp_config=Path("/f/mcp.json"))
NONE: dict[str, str] = {}
pytestmark = pytest.mark.requirement("clients.known-agents")


@pytest.mark.parametrize("program", ["claude", "/opt/bin/claude"])
def test_claude_is_told_of_the_file_before_its_own_words(program: str) -> None:
    outfit = outfit_of((program, "-p", "Why?", "--mcp-config", "mine.json"), GATE, known=NONE)

    assert outfit.command == (
        *(program, "--mcp-config=/f/mcp.json"),
        *("-p", "Why?", "--mcp-config", "mine.json"),
    )


def test_codex_is_told_the_settings_and_reads_the_key_from_its_environment() -> None:
    outfit = outfit_of(("codex", "exec", "Why?"), GATE, known=NONE)

    assert outfit.command == (
        *("codex", "-c", 'mcp_servers.flyball.url="http://h:1/mcp"'),
        *("-c", 'mcp_servers.flyball.bearer_token_env_var="FLYBALL_TOKEN"', "exec", "Why?"),
    )
    assert outfit.added["FLYBALL_TOKEN"] == "k-1"


def test_opencode_is_told_by_a_variable_unless_its_user_has_set_that() -> None:
    told = outfit_of(("opencode",), GATE, known=NONE).added["OPENCODE_CONFIG_CONTENT"]
    kept = outfit_of(("opencode",), GATE, known={"OPENCODE_CONFIG_CONTENT": "{}"}).added

    server = json.loads(told)["mcp"]["flyball"]
    assert (server["url"], server["type"]) == ("http://h:1/mcp", "remote")
    assert "OPENCODE_CONFIG_CONTENT" not in kept


def test_any_other_program_is_started_as_it_was_named_with_every_variable() -> None:
    outfit = outfit_of(("python", "agent.py"), GATE, known=NONE)

    assert outfit.command == ("python", "agent.py")
    assert outfit.added["OPENAI_BASE_URL"] == outfit.added["OPENAI_API_BASE"] == "http://h:1/v1"
    assert outfit.added["ANTHROPIC_BASE_URL"] == outfit.added["FLYBALL_URL"] == "http://h:1"
    assert outfit.added["FLYBALL_MCP_CONFIG"] == "/f/mcp.json"
    assert "k-1" not in repr((outfit.command, outfit))


def test_the_file_is_for_the_agent_alone_and_gone_with_its_run() -> None:
    with place_for_config() as path:
        gate = Gate(base_url="http://h:1", session="s", key="k-1", mcp_config=path)
        write_config(gate, None)
        mode, content = stat.S_IMODE(path.stat().st_mode), path.read_text(encoding="utf-8")

    assert mode == 0o600
    assert content == mcp_config_of(gate)
    assert json.loads(content)["mcpServers"]["flyball"]["headers"] == {
        "Authorization": "Bearer k-1"
    }
    assert not path.parent.exists()
