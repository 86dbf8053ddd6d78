"""What an agent is given at its start, so that all it asks for goes through the sidecar."""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from runtime.agent_runs.words import Ready

SERVER = "flyball"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The ways through the sidecar for one session, and the file that names them for MCP."""

    base_url: str
    session: str
    key: str = field(repr=False)
    mcp_config: Path

    @property
    def mcp_url(self) -> str:
        """Return where tools are served."""
        return f"{self.base_url}/mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outfit:
    """The command as it is started, and the variables that are added to its environment."""

    command: tuple[str, ...]
    added: Mapping[str, str] = field(repr=False)


def variables_of(gate: Gate) -> Mapping[str, str]:
    """Return the variables that agents go by."""
    return {
        "FLYBALL_SESSION": gate.session,
        "FLYBALL_TOKEN": gate.key,
        "FLYBALL_URL": gate.base_url,
        "FLYBALL_MCP_URL": gate.mcp_url,
        "FLYBALL_MCP_CONFIG": str(gate.mcp_config),
        "OPENAI_BASE_URL": f"{gate.base_url}/v1",
        "OPENAI_API_BASE": f"{gate.base_url}/v1",  # what LiteLLM reads, and those on it
        "OPENAI_API_KEY": gate.key,
        "ANTHROPIC_BASE_URL": gate.base_url,
        "ANTHROPIC_AUTH_TOKEN": gate.key,
    }


def outfit_of(command: Sequence[str], gate: Gate, *, known: Mapping[str, str]) -> Outfit:
    """Return how an agent is started; `known` is the environment of whoever starts it.

    A program that is told of MCP servers in a way of its own is told so of ours, beside those
    that it has: nothing of its user's configuration is changed.
    """
    program, *words = command
    own = _CLIENTS.get(Path(program).name, _nothing)
    arguments, more = own(gate, known)
    return Outfit(command=(program, *arguments, *words), added={**variables_of(gate), **more})


def mcp_config_of(gate: Gate) -> str:
    """Return the `mcpServers` file that most clients of MCP read."""
    server = {
        "type": "http",
        "url": gate.mcp_url,
        "headers": {"Authorization": f"Bearer {gate.key}"},
    }
    return json.dumps({"mcpServers": {SERVER: server}}, indent=2) + "\n"


@contextmanager
def place_for_config() -> Iterator[Path]:
    """Yield where the file for one run will be, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="flyball-run-") as folder:
        yield Path(folder) / "mcp.json"


def write_config(gate: Gate, account: tuple[int, int] | None) -> None:
    """Write the file for the agent alone, whose `account` is another than ours."""
    path = gate.mcp_config
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(mcp_config_of(gate))
    if account is not None:
        os.chown(path, *account)
        os.chown(path.parent, *account)


def gate_of(ready: Ready, *, base_url: str, session: str, mcp_config: Path) -> Gate:
    """Return the ways through the sidecar of an agent that may be started."""
    return Gate(base_url=base_url, session=session, key=ready.key, mcp_config=mcp_config)


_Own = tuple[Sequence[str], Mapping[str, str]]


def _nothing(_gate: Gate, _known: Mapping[str, str]) -> _Own:
    return (), {}


def _claude(gate: Gate, _known: Mapping[str, str]) -> _Own:
    """Claude Code takes any number of files; joined by "=", the next word is none of them."""
    return (f"--mcp-config={gate.mcp_config}",), {}


def _codex(gate: Gate, _known: Mapping[str, str]) -> _Own:
    """Codex reads no file for one run, but single settings, in TOML."""
    server = f"mcp_servers.{SERVER}"
    settings = (
        f"{server}.url={json.dumps(gate.mcp_url)}",
        f'{server}.bearer_token_env_var="FLYBALL_TOKEN"',
    )
    return tuple(word for setting in settings for word in ("-c", setting)), {}


def _opencode(gate: Gate, known: Mapping[str, str]) -> _Own:
    """Opencode reads a further configuration from a variable, where there is none yet."""
    name = "OPENCODE_CONFIG_CONTENT"
    if name in known:
        return (), {}
    server = {
        "type": "remote",
        "url": gate.mcp_url,
        "enabled": True,
        "headers": {"Authorization": f"Bearer {gate.key}"},
    }
    return (), {name: json.dumps({"mcp": {SERVER: server}})}


_CLIENTS: Mapping[str, Callable[[Gate, Mapping[str, str]], _Own]] = {
    "claude": _claude,
    "codex": _codex,
    "opencode": _opencode,
}
