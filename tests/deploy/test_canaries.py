"""Secrets with a song of their own, and every place where it must not be heard."""

import base64
import json
import os
import re
import stat
import sys
from collections.abc import Iterator

import anyio
import httpx
import pytest
from deploy.composed import ROOT
from deploy.mirror import TOKEN, Mirror, a_mirror
from scenarios.process import SidecarProcess

from runtime.examination import examine
from runtime.settings import Settings

pytestmark = pytest.mark.slow

CALLS_MAX = 4
CANARIES = {
    "CANARY_REFUSED_KEY": "canary-refused-key-8d21f4a0",
    "CANARY_ECHOED_KEY": "canary-echoed-key-61c09be3",
    "CANARY_FAILED_KEY": "canary-failed-key-2f7d4411",
    "CANARY_HEADER": "Bearer canary-upstream-header-99aa12ce",
    "CANARY_CLIENT": "canary-client-secret-77de01b5",
    "CANARY_CHILD": "canary-child-environment-40fb6c2d",
    "CANARY_OTLP": "canary-otlp-header-c05d7e19",
    "CANARY_HOOK": "canary-hook-secret-13e8a96f",
}
# Given by hand in a request, which is refused.
SENT = {
    "a wrong token": "canary-wrong-token-fb3d2190",
    "a token in an address": "canary-address-token-6e8c11d4",
    "a password in an argument": "canary-argument-password-b2a7",
    "a token in a model request": "canary-message-header-0d9931",
}
CONFIG = """
[[upstream]]
name = "child"
command = [{python}, {worker}]
env_from = ["CANARY_CHILD"]

[[upstream]]
name = "mirror"
url = "{mirror}/failing/mcp"
headers_from = {{ Authorization = "CANARY_HEADER" }}
health = {{ every_s = 1, timeout_s = 5, failures_max = 2 }}

[[upstream]]
name = "clients"
url = "{mirror}/refusing/mcp"

[upstream.auth]
kind = "client_credentials"
client_id = "flyball"
client_secret_from = "CANARY_CLIENT"
token_url = "{mirror}/token"

[[provider]]
name = "refusing"
base_url = "{mirror}/refusing/v1"
api_key_from = "CANARY_REFUSED_KEY"

[[provider]]
name = "echoing"
base_url = "{mirror}/echoing/v1"
api_key_from = "CANARY_ECHOED_KEY"

[[provider]]
name = "failing"
base_url = "{mirror}/failing/v1"
api_key_from = "CANARY_FAILED_KEY"
retries = 0

[[webhook]]
name = "mirror"
url = "{mirror}/hook"
secret_from = "CANARY_HOOK"
kinds = ["threshold", "denial", "approval"]

[telemetry]
otlp_endpoint = "{mirror}"
headers_from = {{ x-otlp-key = "CANARY_OTLP" }}
metrics_every_s = 1

[[budget]]
id = "few"
scope = "tenant"
limits = {{ tool_calls = {calls} }}
warn_at_permille = [250, 500]
"""
TIER = """
[[tier]]
name = "{name}"
provider = "{name}"
model = "model-of-{name}"
input_usd_per_mtok = 1
output_usd_per_mtok = 1
"""


@pytest.fixture(scope="module")
def mirror() -> Iterator[Mirror]:
    with a_mirror() as mirror:
        yield mirror


@pytest.fixture(scope="module")
def sidecar(mirror: Mirror, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SidecarProcess]:
    """A sidecar that says all it can, with every secret in a file."""
    folder = tmp_path_factory.mktemp("canaries")
    environment = {name: value for name, value in os.environ.items() if "FLYBALL" not in name}
    secrets = folder / "secrets"
    secrets.mkdir()
    for name, value in CANARIES.items():
        (secrets / name).write_text(value, encoding="utf-8")
        environment[f"{name}_FILE"] = str(secrets / name)
    config = CONFIG.format(
        mirror=mirror.url,
        calls=CALLS_MAX,
        python=json.dumps(sys.executable),
        worker=json.dumps(str(ROOT / "tests" / "scenarios" / "worker_server.py")),
    )
    tiers = "".join(TIER.format(name=name) for name in ("refusing", "echoing", "failing"))
    process = SidecarProcess(
        folder=folder,
        extra=config + tiers,
        env={**environment, "FLYBALL_LOG_LEVEL": "DEBUG"},
    )
    process.start()
    try:
        yield process
    finally:
        process.stop()


@pytest.fixture(scope="module")
def heard(sidecar: SidecarProcess, mirror: Mirror) -> dict[str, str]:
    """Return everything that a sidecar says, by place, after it was used well and badly."""
    heard = anyio.run(used, sidecar)
    heard["webhooks"] = "\n".join(mirror.until("/hook", 2))
    mirror.until("/v1/traces")
    mirror.until("/v1/metrics")
    heard |= anyio.run(administered, sidecar)
    heard["doctor"] = examined(sidecar)
    sidecar.stop()
    heard["log"] = sidecar.log()
    # What was sent with them, under their own headers, is for the collector alone.
    for signal in ("traces", "metrics"):
        heard[signal] = "\n".join(mirror.bodies(f"/v1/{signal}"))
    assert "worker__echo" in heard["traces"], heard["traces"][:2000]
    for path in sorted(sidecar.state.rglob("*")):
        if path.is_file() and path.suffix != ".token":
            heard[f"file {path.name}"] = path.read_bytes().decode("latin-1")
    return heard


async def used(sidecar: SidecarProcess) -> dict[str, str]:
    """Call tools and ask models until budgets and upstreams refuse; return what agents are told."""
    told = {}
    await connected(sidecar, "worker")
    async with sidecar.agent() as client:
        told["tools"] = (await client.list_tools()).model_dump_json()
        for number in range(CALLS_MAX + 2):
            text = f"my password = {SENT['a password in an argument']}"
            arguments = {"text": text, "password": SENT["a password in an argument"]}
            if number:
                arguments = {"text": f"call {number}"}
            result = await client.call_tool("worker__echo", arguments)
            assert result.is_error is (number >= CALLS_MAX), result
            if number:
                told[f"tool call {number}"] = result.model_dump_json()
    agents = sidecar.urls["models"]
    async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
        for tier in ("refusing", "echoing", "failing"):
            for stream in (False, True):
                body = {
                    "model": tier,
                    "stream": stream,
                    "messages": [{"role": "user", "content": "Why?"}],
                }
                headers = {
                    "Authorization": f"Bearer {sidecar.token('agent')}",
                    "X-Mine": SENT["a token in a model request"],
                }
                answer = await http.post(f"{agents}/chat/completions", json=body, headers=headers)
                told[f"model {tier}, stream {stream}"] = f"{answer.headers} {answer.text}"
        wrong = {"Authorization": f"Bearer {SENT['a wrong token']}"}
        address = {"token": SENT["a token in an address"]}
        for url in (agents + "/models", sidecar.urls["agents"], sidecar.urls["admin"] + "/calls"):
            answer = await http.get(url, params=address, headers=wrong)
            told[f"refused {url}"] = f"{answer.status_code} {answer.headers} {answer.text}"
            assert answer.status_code in {401, 405}, answer.text
    return told


async def connected(sidecar: SidecarProcess, name: str) -> None:
    """Wait until an upstream can be called: the sidecar serves before slow ones are there."""
    async with sidecar.admin() as admin:
        with anyio.fail_after(90):
            while (await admin.get(f"upstreams/{name}")).json()["state"] != "ready":
                await anyio.sleep(0.1)


async def administered(sidecar: SidecarProcess) -> dict[str, str]:
    """Return every answer of the admin API to a question, and the metrics."""
    told = {}
    async with sidecar.admin() as admin:
        document = (await admin.get("openapi.json")).json()
        names = {"tenant": "default", "tenant_id": "default", "name": "mirror", "id": "agent"}
        for path, kinds in document["paths"].items():
            if "get" not in kinds:
                continue
            filled = re.sub(r"\{(\w+)\}", lambda found: names.get(found[1], "agent"), path)
            url = sidecar.urls["admin"].removesuffix("/admin/v1") + filled
            answer = await admin.get(url, params={"tenant": "default", "limit": 200})
            told[f"admin {path}"] = answer.text
        assert '"mirror"' in told["admin /admin/v1/upstreams"]
        assert "worker__echo" in told["admin /admin/v1/calls"]
    return told


def examined(sidecar: SidecarProcess) -> str:
    """Return what `flyball doctor` says of it, which reads every secret."""
    config, state = sidecar.folder / "flyball.toml", sidecar.state
    with pytest.MonkeyPatch.context() as environment:
        for name, value in (sidecar.env or {}).items():
            environment.setenv(name, value)
        examination = examine(Settings(config=config, state=state))
    told = json.dumps(examination.shape())
    assert "upstream clients" in told
    return told


def places(heard: dict[str, str], secret: str) -> list[str]:
    """Return where a secret is heard, also in the ways in which it may be coded."""
    forms = {secret, secret.removeprefix("Bearer ")}
    forms |= {base64.b64encode(form.encode()).decode().rstrip("=") for form in forms}
    return [place for place, text in heard.items() if any(form in text for form in forms)]


@pytest.mark.requirement("secrets.unheard")
@pytest.mark.parametrize("name", CANARIES)
def test_a_secret_of_the_configuration_is_heard_nowhere(heard: dict[str, str], name: str) -> None:
    assert not places(heard, CANARIES[name])


@pytest.mark.requirement("secrets.unheard")
@pytest.mark.parametrize("what", SENT)
def test_a_secret_that_somebody_sent_is_heard_nowhere(heard: dict[str, str], what: str) -> None:
    assert not places(heard, SENT[what])


@pytest.mark.requirement("secrets.unheard")
@pytest.mark.parametrize("who", ["admin", "agent"])
def test_a_token_of_ours_is_in_its_own_file_alone(
    heard: dict[str, str], sidecar: SidecarProcess, who: str
) -> None:
    token = sidecar.token(who)

    assert not places(heard, token)
    assert stat.S_IMODE((sidecar.state / f"{who}.token").stat().st_mode) == 0o600


@pytest.mark.requirement("secrets.unheard")
def test_a_token_that_an_authorization_server_gave_is_heard_nowhere(heard: dict[str, str]) -> None:
    assert not places(heard, TOKEN)


def test_whom_the_secrets_are_for_gets_them(heard: dict[str, str], mirror: Mirror) -> None:
    """Else silence would prove nothing."""
    assert heard
    got = "\n".join(text for _, text in mirror.got)

    signed_with = {"CANARY_HOOK", "CANARY_CHILD"}
    for name, secret in CANARIES.items():
        coded = base64.b64encode(f"flyball:{secret}".encode()).decode()
        assert secret in got or coded in got or name in signed_with, name
    assert f"Bearer {TOKEN}" in got
    assert "flyball-signature" in got.lower()
    assert "worker__echo" in heard["file flyball.db"]
