"""The recipes as their users run them: as programs, against a running sidecar."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from scenarios.clients import House
from scenarios.launched import PYTHON, launched, visited

from tests.clients import playing
from tests.conformance.installed import CACHE, NODE, made_once, npm_install
from tests.model_upstream.upstream import Play

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.requirement("clients.recipes"),
]
RECIPES = Path(__file__).resolve().parent.parent.parent / "recipes"
SECONDS_MAX = 120


def environment(house: House, session: str) -> Mapping[str, str]:
    """Return what `flyball run` gives its agent."""
    base, token = house.sidecar.urls["agents"].removesuffix("/mcp"), house.sidecar.token("agent")
    kept = {name: value for name, value in os.environ.items() if "PROXY" not in name.upper()}
    return {
        **kept,
        "FLYBALL_URL": base,
        "FLYBALL_MCP_URL": f"{base}/mcp",
        "FLYBALL_TOKEN": token,
        "FLYBALL_SESSION": session,
        "OPENAI_BASE_URL": f"{base}/v1",
        "OPENAI_API_KEY": token,
        "PATH": f"{NODE.parent}{os.pathsep}{os.environ['PATH']}",
    }


def played(
    house: House, session: str, *argv: str, cwd: Path = RECIPES
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        argv,
        env=environment(house, session),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def calls_of(house: House, session: str) -> list[dict[str, Any]]:
    headers = {"Authorization": f"Bearer {house.sidecar.token('admin')}"}
    url = f"{house.sidecar.urls['admin']}/calls"
    answer = httpx.get(
        url, headers=headers, params={"session": session}, trust_env=False, timeout=60
    )
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


@pytest.mark.parametrize(
    ("recipe", "script"),
    [
        ("openai_agents.py", playing.responses),
        ("langgraph_agent.py", playing.chat),
        ("pydantic_ai_agent.py", playing.chat),
    ],
)
def test_a_framework_asks_models_and_calls_tools_through_the_sidecar(
    house: House, tmp_path: Path, recipe: str, script: Callable[[], tuple[Play, Play]]
) -> None:
    house.upstream.plays(*script())
    agent = ("--json", "--", PYTHON, str(RECIPES / recipe), "Why?")

    done = launched(visited(house.sidecar, tmp_path), *agent)

    assert done.status == 0, done.told
    assert done.out.splitlines()[0] == playing.SAID
    assert "from the tool" in house.upstream.received[-1].content.decode()
    records = calls_of(house, done.shape["session_id"])
    kinds = Counter((record["kind"], record["name"]) for record in records)
    assert kinds.pop(("tool", "agent_run")) > 0
    assert kinds == {("model", "gpt-4.1"): 2, ("tool", playing.TOOL): 1}


@pytest.fixture(scope="module")
def typescript() -> Path:
    """The folder with the recipe in TypeScript and what it needs, or a skipped test."""
    lock = (RECIPES / "package-lock.json").read_bytes()
    folder = CACHE / f"recipes-{hashlib.sha256(lock).hexdigest()[:16]}"
    with made_once(folder) as making:
        if making is not None:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(RECIPES / name, making)
            npm_install(making)
    shutil.copy(RECIPES / "mcp_client.ts", folder)
    return folder


@pytest.mark.parametrize("language", ["python", "typescript"])
def test_a_plain_client_calls_a_tool_and_reads_what_is_left(
    house: House, language: str, request: pytest.FixtureRequest
) -> None:
    if language == "python":
        argv, cwd = (sys.executable, "mcp_client.py"), RECIPES
    else:
        argv, cwd = (str(NODE), "mcp_client.ts"), request.getfixturevalue("typescript")
    words = (*argv, "worker__echo", '{"text": "hello"}')

    first = played(house, f"plain {language}", *words, cwd=cwd)
    again = played(house, f"plain {language}", *words, cwd=cwd)
    unknown = played(house, f"plain {language}", *argv, "governor_extend", '{"turns": -1}', cwd=cwd)

    assert first.returncode == 0, first.stderr
    assert (first.stdout, again.stdout) == ("hello\n", "hello\n")
    assert "left in calls: 29 tool_calls" in first.stderr
    assert "left in calls: 28 tool_calls" in again.stderr
    assert unknown.returncode != 0
