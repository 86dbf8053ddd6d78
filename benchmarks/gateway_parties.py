"""Who takes part in the comparison of gateways, and how each is started.

Peers are looked for in one folder, each where its own package manager puts it.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import contextforge

HERE = Path(__file__).resolve().parent
UPSTREAM = HERE / "gateway_upstream.py"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where one party is to run: its port, its folder, and the server behind it."""

    port: int
    folder: Path
    upstream: str

    def written(self, name: str, text: str) -> str:
        """Return the path of a file with `text`."""
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)


Command = Callable[[Path, Place], Sequence[str]]
Register = Callable[[Path, int, Path, str], tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Party:
    """One gateway: what it needs in the peers' folder, and how it is started and called.

    `register` tells a running one of its upstream, from the peers' folder, its port, its folder
    and the upstream's URL; it returns the path and the header to call it with.
    """

    name: str
    command: Command
    needs: str = ""
    install: str = ""
    era: str = "modern"
    tool: str = "echo"
    headers: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    is_ours: bool = False
    register: Register | None = None
    settings: Callable[[Path], Mapping[str, str]] = lambda _: {}

    def is_there(self, peers: Path) -> bool:
        """Tell whether it can be started."""
        return not self.needs or (peers / self.needs).exists()


def _flyball(_: Path, place: Place) -> Sequence[str]:
    # Everything is on: two budgets, four levels of the chain, schema checks, records.
    config = place.written(
        "flyball.toml",
        f"""
[auth]
mode = "none"
[listen]
agents = "127.0.0.1:{place.port}"
admin = "127.0.0.1:0"
[[upstream]]
name = "echo"
url = "{place.upstream}"
[[budget]]
id = "all"
scope = "tenant"
limits = {{ tool_calls = 1000000000, cost_microusd = 1000000000 }}
[[budget]]
id = "each"
scope = "session"
limits = {{ tool_calls = 1000000000 }}
""",
    )
    state = str(place.folder / "state")
    return (sys.executable, "-m", "runtime", "up", "--json", "--config", config, "--state", state)


def nginx(peers: Path, place: Place) -> Sequence[str]:
    """Return the command of a proxy that keeps its connections and counts nothing."""
    host = place.upstream.removeprefix("http://").removesuffix("/mcp")
    paths = "".join(
        f"{kind}_temp_path {place.folder}/{kind};"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    config = place.written(
        "nginx.conf",
        f"""
worker_processes 1; daemon off; pid {place.folder}/pid; error_log {place.folder}/errors;
events {{ worker_connections 1024; }}
http {{ access_log off; {paths}
  upstream up {{ server {host}; keepalive 128; }}
  server {{ listen 127.0.0.1:{place.port};
    location / {{ proxy_pass http://up; proxy_http_version 1.1;
      proxy_set_header Connection ""; proxy_set_header Host {host}; proxy_buffering off; }} }} }}
""",
    )
    return (str(peers / "nginx/usr/sbin/nginx"), "-p", str(place.folder), "-c", config)


_RELAY = """
import sys, aiohttp, uvloop
from aiohttp import web
HOP = {"host", "connection", "content-length", "transfer-encoding", "accept-encoding"}
async def handle(request):
    headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP}
    body = await request.read()
    async with request.app["out"].post(sys.argv[1], data=body, headers=headers) as answer:
        kind = {"content-type": answer.headers["content-type"]}
        return web.Response(body=await answer.read(), status=answer.status, headers=kind)
async def out(app):
    app["out"] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    yield
    await app["out"].close()
app = web.Application()
app.router.add_post("/mcp", handle)
app.cleanup_ctx.append(out)
uvloop.install()
web.run_app(app, host="127.0.0.1", port=int(sys.argv[2]), access_log=None, print=None)
"""
_FASTMCP = """
import asyncio, sys
from fastmcp import Client
from fastmcp.server import create_proxy
HOW = dict(transport="http", host="127.0.0.1", port=int(sys.argv[2]), path="/mcp",
           json_response=True, show_banner=False,
           uvicorn_config={"log_level": "warning", "access_log": False})
async def shared():
    async with Client(sys.argv[1]) as client:
        await create_proxy(client, name="proxy").run_async(**HOW)
asyncio.run(shared()) if sys.argv[3:] else create_proxy(sys.argv[1], name="proxy").run(**HOW)
"""
_LITELLM = """
model_list:
  - model_name: none
    litellm_params: {{model: openai/none, api_key: x, api_base: "http://127.0.0.1:9/v1"}}
general_settings: {{master_key: sk-bench}}
litellm_settings: {{telemetry: false}}
mcp_servers:
  echo: {{url: "{upstream}", transport: "http", auth_type: "none", allow_all_keys: true}}
"""


def _script(python: str, text: str, *more: str) -> Command:
    def command(peers: Path, place: Place) -> Sequence[str]:
        script = place.written("party.py", text)
        return (str(peers / python), script, place.upstream, str(place.port), *more)

    return command


def _litellm(peers: Path, place: Place) -> Sequence[str]:
    config = place.written("litellm.yaml", _LITELLM.format(upstream=place.upstream))
    where = ("--host", "127.0.0.1", "--port", str(place.port))
    return (str(peers / "litellm/bin/litellm"), "--config", config, *where)


def _contextforge(peers: Path, place: Place) -> Sequence[str]:
    where = ("--host", "127.0.0.1", "--port", str(place.port), "--no-access-log")
    return (str(peers / "contextforge/bin/mcpgateway"), "mcpgateway.main:app", *where)


def _npm_proxy(peers: Path, place: Place) -> Sequence[str]:
    where = ("--port", str(place.port), "--host", "127.0.0.1", "--server", "stream")
    behind = (sys.executable, str(UPSTREAM), "stdio")
    return (str(peers / "npm/node_modules/.bin/mcp-proxy"), *where, "--", *behind)


FLYBALL = Party(name="Flyball", command=_flyball, tool="echo__echo", is_ours=True)
PARTIES = (
    FLYBALL,
    Party(
        name="nginx",
        command=nginx,
        needs="nginx/usr/sbin/nginx",
        install="mkdir nginx; cd nginx; apt-get download nginx; dpkg -x *.deb .",
    ),
    Party(
        name="aiohttp relay",
        command=_script("relay/bin/python", _RELAY),
        needs="relay/bin/python",
        install="python3 -m venv relay; relay/bin/pip install aiohttp uvloop",
    ),
    Party(
        name="FastMCP proxy",
        command=_script("fastmcp/bin/python", _FASTMCP),
        needs="fastmcp/bin/python",
        install="python3 -m venv fastmcp; fastmcp/bin/pip install fastmcp==4.1.2",
    ),
    Party(
        name="FastMCP proxy, shared client",
        command=_script("fastmcp/bin/python", _FASTMCP, "shared"),
        needs="fastmcp/bin/python",
        install="as above",
    ),
    Party(
        name="LiteLLM",
        command=_litellm,
        needs="litellm/bin/litellm",
        install="python3 -m venv litellm; litellm/bin/pip install 'litellm[proxy]==1.106.2'",
        era="legacy",
        tool="echo-echo",
        headers=("x-litellm-api-key: Bearer sk-bench",),
        environment={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"},
    ),
    Party(
        name="ContextForge",
        command=_contextforge,
        needs="contextforge/bin/mcpgateway",
        install="python3 -m venv contextforge; contextforge/bin/pip install "
        "mcp-contextforge-gateway==1.0.7.post20260921",
        era="legacy",
        tool="echo-echo",
        register=contextforge.registered,
        settings=contextforge.environment,
    ),
    Party(
        name="npm mcp-proxy (stdio)",
        command=_npm_proxy,
        needs="npm/node_modules/.bin/mcp-proxy",
        install="mkdir npm; cd npm; npm install mcp-proxy@6.7.19",
    ),
)
