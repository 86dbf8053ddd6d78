"""Servers and clients of other makers, of both eras, through one sidecar.

The servers from npm speak the era with sessions, those from PyPI the newer one; the TypeScript
client and the Python one speak both, and the inspector's command line is what people try first.
"""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import mcp_types
import pytest
from mcp import Client
from ports import a_port

from tests.conformance.installed import CACHE, NODE, made_once, npm_install
from tests.conformance.sidecar import answers_at, sidecar_with

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.requirement("protocol.any-era-with-any-era"),
]
HERE = Path(__file__).resolve().parent
MODES = pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
SERVERS = {"everything", "remote", "files", "memory", "time", "git"}
SECONDS_MAX = 60
INSPECTOR = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"


@pytest.fixture(scope="module")
def packages() -> Path:
    """The folder with the servers and the client, or a skipped test."""
    lock = (HERE / "package-lock.json").read_bytes()
    folder = CACHE / f"makers-{hashlib.sha256(lock).hexdigest()[:16]}"
    with made_once(folder) as making:
        if making is not None:
            for name in ("package.json", "package-lock.json", "client.mjs"):
                shutil.copy(HERE / name, making)
            npm_install(making)
    shutil.copy(HERE / "client.mjs", folder)
    return folder


@pytest.fixture(scope="module")
def sidecar(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A sidecar before all of the servers, one of them remote."""
    work = tmp_path_factory.mktemp("work")
    (work / "hello.txt").write_text("hello from a file", encoding="utf-8")
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    made = packages / "node_modules" / "@modelcontextprotocol"
    everything = str(made / "server-everything" / "dist" / "index.js")
    files = str(made / "server-filesystem" / "dist" / "index.js")
    memory = str(made / "server-memory" / "dist" / "index.js")
    port = a_port()
    remote = f"http://127.0.0.1:{port}/mcp"
    config = "".join(
        [
            started("everything", str(NODE), everything),
            started("files", str(NODE), files, str(work)),
            started("memory", str(NODE), memory, MEMORY_FILE_PATH=str(work / "memory.json")),
            started("time", "mcp-server-time"),
            started("git", "mcp-server-git"),
            f'[[upstream]]\nname = "remote"\nurl = "{remote}"\n',
        ]
    )
    with subprocess.Popen(
        [str(NODE), everything, "streamableHttp"],
        env={"PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            answers_at(remote)
            with sidecar_with(config, tmp_path_factory.mktemp("sidecar")) as url:
                anyio.run(all_up, url)
                yield url
        finally:
            server.terminate()


def started(name: str, *command: str, **env: str) -> str:
    pairs = ", ".join(f"{key} = {json.dumps(value)}" for key, value in env.items())
    return (
        f"[[upstream]]\nname = {json.dumps(name)}\ncommand = {json.dumps(list(command))}\n"
        f"env = {{ {pairs} }}\n\n"
    )


async def all_up(url: str) -> None:
    """Wait until every server is listed: what comes late comes into the list."""
    with anyio.fail_after(SECONDS_MAX):
        async with Client(url, cache=None) as client:
            while True:
                tools = [tool.name for tool in (await client.list_tools()).tools]
                if {name.split("__")[0] for name in tools if "__" in name} >= SERVERS:
                    return
                await anyio.sleep(0.1)


async def sampled(_: Any, __: Any) -> mcp_types.CreateMessageResult:
    said = mcp_types.TextContent(type="text", text="sampled here")
    return mcp_types.CreateMessageResult(role="assistant", content=said, model="none")


async def call(client: Client, name: str, arguments: dict[str, Any]) -> str:
    result = await client.call_tool(name, arguments)
    return "\n".join(getattr(block, "text", "") for block in result.content)


@MODES
@pytest.mark.anyio
async def test_the_python_client_uses_every_server(sidecar: str, mode: Any) -> None:
    progress: list[float] = []

    async def note(done: float, _total: float | None, _message: str | None) -> None:
        progress.append(done)

    with anyio.fail_after(SECONDS_MAX):
        async with Client(sidecar, mode=mode, sampling_callback=sampled, cache=None) as client:
            echoed = await call(client, "everything__echo", {"message": "hi"})
            asked = await call(
                client, "remote__trigger-sampling-request", {"prompt": "say", "maxTokens": 9}
            )
            long = await client.call_tool(
                "remote__trigger-long-running-operation",
                {"duration": 0.3, "steps": 3},
                progress_callback=note,
            )
            structured = await client.call_tool(
                "everything__get-structured-content", {"location": "New York"}
            )
            read = await call(client, "files__read_text_file", {"path": "hello.txt"})
            await call(
                client,
                "memory__create_entities",
                {"entities": [{"name": mode, "entityType": "era", "observations": []}]},
            )
            graph = await call(client, "memory__read_graph", {})
            time = await call(client, "time__get_current_time", {"timezone": "UTC"})
            status = await client.call_tool("git__git_status", {"repo_path": "."})
            resources = (await client.list_resources()).resources
            first = await client.read_resource(resources[0].uri)
            dynamic = await client.read_resource("demo://resource/dynamic/text/1")
            prompt = await client.get_prompt("everything__simple-prompt")

    assert "hi" in echoed
    assert "sampled here" in asked
    assert (progress[-1], long.is_error) == (3, False)
    assert structured.structured_content is not None
    assert read == "hello from a file"
    assert mode in graph
    assert "UTC" in time
    assert status.content
    assert first.contents
    assert dynamic.contents
    assert prompt.messages


@MODES
def test_the_typescript_client_uses_them_too(sidecar: str, packages: Path, mode: str) -> None:
    done = subprocess.run(
        [str(NODE), "client.mjs", sidecar, mode],
        cwd=packages,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    got = json.loads(done.stdout.splitlines()[-1])
    assert {name.split("__")[0] for name in got["tools"]} >= SERVERS
    assert "everything__simple-prompt" in got["prompts"]
    assert got["resources"] > 0
    assert "hi" in got["echo"]
    assert "5" in got["sum"]
    assert "UTC" in got["time"]
    assert "sampled here" in got["sampled"]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (("tools/list",), "git__git_status"),
        (("prompts/list",), "everything__simple-prompt"),
        (("resources/list",), "demo://resource/"),
        (
            ("tools/call", "--tool-name", "everything__echo", "--tool-arg", "message=seen"),
            "seen",
        ),
        (("prompts/get", "--prompt-name", "everything__simple-prompt"), "messages"),
    ],
    ids=lambda part: part[0] if isinstance(part, tuple) else None,
)
def test_the_inspector_shows_what_there_is(
    sidecar: str, packages: Path, asked: tuple[str, ...], shown: str
) -> None:
    method, *more = asked
    done = subprocess.run(
        [str(NODE), INSPECTOR, "--cli", sidecar, "--transport", "http", "--method", method, *more],
        cwd=packages,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert shown in json.dumps(json.loads(done.stdout))
