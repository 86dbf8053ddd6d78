"""What a real sidecar tells: traces and metrics at a real collector, notices at a webhook."""

import json
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import httpx2
import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from scenarios.collector import Collector, Seen, a_collector
from scenarios.process import SidecarProcess
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.model_upstream.chat_goldens import completion
from tests.model_upstream.upstream import Upstream, an_upstream, answering
from tests.tool_gateway.protocol.everything import Everything
from tests.tool_gateway.protocol.stage import served

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SECONDS_MAX = 60
MODERN = "2026-07-28"
CANARY = "canary-5f1c-argument"
SECRET = "sk-canarycanarycanary0123456789"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
CONFIG = """
[telemetry]
otlp_endpoint = "{collector}"
headers_from = {{ authorization = "OTLP_TOKEN" }}
metrics_every_s = 1

[[upstream]]
name = "up"
url = "{upstream}/mcp"

[[provider]]
name = "lab"
base_url = "{model}"
api_key_from = "LAB_KEY"

[[tier]]
name = "low"
provider = "lab"
model = "small-1"
input_usd_per_mtok = 1
output_usd_per_mtok = 1

[[rule]]
name = "none"
tool = "up__met"
allow = false

[[rule]]
name = "asked"
tool = "up__steps"
approve = true
approval_wait_s = 1

[[webhook]]
name = "people"
url = "{collector}/hook"
secret_from = "OTLP_TOKEN"
kinds = ["denial", "approval"]
"""


class Overheard:
    """An application whose POST requests are kept as they came."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.calls: list[tuple[dict[str, str], dict[str, Any]]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        body = b""
        message = await receive()
        body += message.get("body", b"")
        while message.get("more_body"):
            message = await receive()
            body += message.get("body", b"")
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.calls.append((headers, json.loads(body)))
        is_told = False

        async def again() -> Message:
            nonlocal is_told
            if is_told:
                return await receive()
            is_told = True
            return {"type": "http.request", "body": body, "more_body": False}

        await self._app(scope, again, send)

    def call_with(self, text: str) -> tuple[dict[str, str], dict[str, Any]]:
        """Return headers and `_meta` of the one call of a tool with that text."""
        [found] = [
            (headers, body["params"]["_meta"])
            for headers, body in self.calls
            if body["method"] == "tools/call" and body["params"]["arguments"] == {"text": text}
        ]
        return found


@dataclass
class Scene:
    """A sidecar between an upstream and a model, and the collector that it tells."""

    sidecar: SidecarProcess
    collector: Collector
    upstream: Overheard
    model: Upstream


@pytest.fixture(scope="module", params=[1, 2], ids=["one-process", "two-workers"])
def scene(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    workers: int = request.param
    with ExitStack() as stack:
        collector = stack.enter_context(a_collector())
        portal: BlockingPortal = stack.enter_context(start_blocking_portal())
        everything = Everything()
        overheard = Overheard(everything.app(versions=(MODERN,)))
        stack.enter_context(
            portal.wrap_async_context_manager(everything.server.session_manager.run())
        )
        url = stack.enter_context(portal.wrap_async_context_manager(served(overheard)))
        model = stack.enter_context(
            portal.wrap_async_context_manager(an_upstream(always=answering(completion())))
        )
        sidecar = SidecarProcess(
            folder=tmp_path_factory.mktemp(f"traced-{workers}"),
            extra=CONFIG.format(collector=collector.url, upstream=url, model=model.base_url),
            workers=workers,
            env={**os.environ, "OTLP_TOKEN": "Bearer collector", "LAB_KEY": SECRET},
        )
        sidecar.start()
        stack.callback(sidecar.stop)
        yield Scene(sidecar, collector, overheard, model)
    assert not collector.faults
    # Libraries complain in the log where they are closed in the wrong order.
    assert "MetricReader" not in sidecar.log()
    assert "already shutdown" not in sidecar.log()


class Trace:
    """A trace of a client's."""

    def __init__(self) -> None:
        self.trace_id, self.span_id = secrets.token_hex(16), secrets.token_hex(8)
        self.members = {"traceparent": f"00-{self.trace_id}-{self.span_id}-01"}


async def called(
    scene: Scene, tool: str, arguments: dict[str, str], *, headers: Any = None, meta: Any = None
) -> dict[str, Any]:
    """Call a tool as clients of the era without sessions do."""
    body = {
        "jsonrpc": "2.0",
        "id": 7,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": META | (meta or {})},
    }
    sent = {
        "Authorization": f"Bearer {scene.sidecar.token('agent')}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "tools/call",
        "Mcp-Name": tool,
    }
    async with httpx.AsyncClient(trust_env=False, timeout=SECONDS_MAX) as http:
        answer = await http.post(
            scene.sidecar.urls["agents"], json=body, headers=sent | (headers or {})
        )
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


def is_below(spans: dict[str, Seen], name: str, above: str) -> bool:
    return spans[name].parent_id == spans[above].span_id


@pytest.mark.requirement("trace.client-to-upstream")
async def test_a_trace_goes_on_from_the_clients_header_to_the_upstream(scene: Scene) -> None:
    trace = Trace()

    await called(scene, "up__echo", {"text": "by header"}, headers=trace.members)

    serving, asking = "tools/call up__echo", "tools/call echo"
    own = ("POST /mcp", serving, "flyball.admit", "flyball.run", asking, "flyball.settle")
    spans = scene.collector.of_trace(trace.trace_id, *own)
    assert spans["POST /mcp"].parent_id == trace.span_id
    assert is_below(spans, serving, "POST /mcp")
    assert is_below(spans, asking, "flyball.run")
    assert [spans[name].kind for name in (serving, asking)] == ["SERVER", "CLIENT"]
    headers, meta = scene.upstream.call_with("by header")
    sent = f"00-{trace.trace_id}-{spans[asking].span_id}-01"
    assert (headers["traceparent"], meta["traceparent"]) == (sent, sent)


@pytest.mark.requirement("trace.client-to-upstream")
async def test_a_trace_goes_on_from_meta_by_the_conventions_for_mcp(scene: Scene) -> None:
    trace = Trace()

    await called(scene, "up__echo", {"text": "by meta"}, meta=trace.members)

    serving, asking = "tools/call up__echo", "tools/call echo"
    spans = scene.collector.of_trace(trace.trace_id, serving, asking)
    assert spans[serving].parent_id == trace.span_id
    told = spans[serving].attributes
    about = {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": MODERN,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "up__echo",
        "jsonrpc.request.id": "7",
        "flyball.backend": "up",
        "flyball.status": "ok",
    }
    assert about.items() <= told.items()
    assert told["flyball.session"].startswith("ses_")
    asked = spans[asking].attributes
    assert (asked["flyball.upstream"], asked["server.address"]) == ("up", "127.0.0.1")
    assert isinstance(asked["server.port"], int)
    _, meta = scene.upstream.call_with("by meta")
    assert meta["traceparent"] == f"00-{trace.trace_id}-{spans[asking].span_id}-01"
    assert spans[serving].resource["service.name"] == "flyball"
    assert scene.collector.headers[-1]["authorization"] == "Bearer collector"


@pytest.mark.requirement("trace.client-to-upstream")
async def test_a_client_of_the_era_with_sessions_has_its_calls_traced_too(scene: Scene) -> None:
    trace = Trace()
    token = {"Authorization": f"Bearer {scene.sidecar.token('agent')}"}
    with anyio.fail_after(SECONDS_MAX):
        async with (
            httpx2.AsyncClient(headers=token | trace.members, trust_env=False, timeout=60) as http,
            Client(
                streamable_http_client(scene.sidecar.urls["agents"], http_client=http),
                mode="legacy",
                cache=None,
            ) as client,
        ):
            await client.call_tool("up__echo", {"text": "in a session"})

    spans = scene.collector.of_trace(trace.trace_id, "tools/call up__echo", "flyball.settle")
    assert spans["tools/call up__echo"].kind == "SERVER"
    _, meta = scene.upstream.call_with("in a session")
    asking = spans["tools/call echo"].span_id
    assert meta["traceparent"] == f"00-{trace.trace_id}-{asking}-01"


@pytest.mark.requirement("trace.client-to-model")
async def test_a_trace_goes_on_to_the_model_provider(scene: Scene) -> None:
    trace = Trace()

    async with httpx.AsyncClient(trust_env=False, timeout=SECONDS_MAX) as http:
        answer = await http.post(
            f"{scene.sidecar.urls['models']}/chat/completions",
            json={"model": "low", "messages": [{"role": "user", "content": CANARY}]},
            headers={"Authorization": f"Bearer {scene.sidecar.token('agent')}", **trace.members},
        )

    assert answer.status_code == 200, answer.text
    front = "POST /v1/chat/completions"
    spans = scene.collector.of_trace(trace.trace_id, front, "chat small-1", "flyball.settle")
    assert spans[front].parent_id == trace.span_id
    assert spans[front].attributes["http.response.status_code"] == 200
    inference = spans["chat small-1"]
    assert inference.attributes["gen_ai.provider.name"] == "openai"
    assert inference.kind == "CLIENT"
    sent = scene.model.received[-1].headers["traceparent"]
    assert sent == f"00-{trace.trace_id}-{inference.span_id}-01"


@pytest.mark.requirement("trace.denials")
async def test_a_denial_is_told_on_the_span_of_its_request(scene: Scene) -> None:
    trace = Trace()

    result = await called(scene, "up__met", {}, headers=trace.members)

    assert result["isError"]
    spans = scene.collector.of_trace(trace.trace_id, "tools/call up__met", "POST /mcp")
    denied = spans["tools/call up__met"]
    assert denied.attributes["flyball.denial.reason"] == "policy_denied"
    assert (denied.attributes["error.type"], denied.is_error) == ("tool_error", True)
    assert "flyball.run" not in spans


@pytest.mark.requirement("metrics.by-otlp")
async def test_metrics_are_sent_with_the_traces_that_they_were_measured_in(scene: Scene) -> None:
    trace = Trace()
    await called(scene, "up__echo", {"text": "measured"}, headers=trace.members)
    spans = scene.collector.of_trace(trace.trace_id, "tools/call up__echo", "flyball.settle")

    def is_exemplified(collector: Collector) -> bool:
        metric = collector.metrics.get("mcp.server.operation.duration")
        points = [] if metric is None else metric.histogram.data_points
        return any(
            exemplar.trace_id.hex() == trace.trace_id
            for point in points
            for exemplar in point.exemplars
        )

    scene.collector.until(is_exemplified)

    metrics = scene.collector.metrics
    assert metrics["mcp.server.operation.duration"].unit == "s"
    assert {"flyball_calls", "flyball_call_duration", "mcp.client.operation.duration"} <= set(
        metrics
    )
    assert len(spans["tools/call up__echo"].span_id) == 16


@pytest.mark.requirement("metrics.exemplars")
async def test_what_prometheus_reads_shows_a_trace_beside_a_duration(scene: Scene) -> None:
    trace = Trace()
    await called(scene, "up__echo", {"text": "shown"}, headers=trace.members)

    async with httpx.AsyncClient(trust_env=False, timeout=SECONDS_MAX) as http:
        url = scene.sidecar.urls["admin"].removesuffix("/admin/v1") + "/metrics"

        async def shown() -> set[str]:
            answer = await http.get(url, headers={"Accept": "application/openmetrics-text"})
            assert answer.headers["content-type"].startswith("application/openmetrics-text")
            return {
                sample.exemplar.labels["trace_id"]
                for family in text_string_to_metric_families(answer.text)
                for sample in family.samples
                if sample.exemplar is not None
            }

        with anyio.fail_after(SECONDS_MAX):
            # Workers say how they are every two seconds.
            while trace.trace_id not in await shown():
                await anyio.sleep(0.1)
        usual = await http.get(url)

    assert usual.headers["content-type"].startswith("text/plain")
    assert trace.trace_id not in usual.text


@pytest.mark.requirement("trace.no-content")
async def test_nothing_of_contents_and_secrets_is_sent_to_a_collector(scene: Scene) -> None:
    trace = Trace()
    token = scene.sidecar.token("agent")
    text = f"{CANARY} {SECRET}"

    await called(scene, "up__echo", {"text": text}, headers=trace.members)

    scene.collector.of_trace(trace.trace_id, "POST /mcp", "flyball.settle")
    sent = b"".join(scene.collector.raw)
    for secret in (CANARY, SECRET, token, scene.sidecar.token("admin")):
        assert secret.encode() not in sent
        assert secret not in scene.sidecar.log()


@pytest.mark.requirement("trace.fails-open")
async def test_a_collector_that_fails_costs_no_call_and_is_counted(scene: Scene) -> None:
    scene.collector.status = 400
    try:
        for number in range(3):
            result = await called(scene, "up__echo", {"text": f"while it fails {number}"})
            assert not result.get("isError")
        async with httpx.AsyncClient(trust_env=False, timeout=SECONDS_MAX) as http:
            url = scene.sidecar.urls["admin"].removesuffix("/admin/v1") + "/metrics"
            with anyio.fail_after(SECONDS_MAX):
                while 'where="otlp_traces"' not in (await http.get(url)).text:
                    await anyio.sleep(0.1)
    finally:
        scene.collector.status = 200


@pytest.mark.requirement("notice.denials-added-up")
async def test_a_loop_of_denials_is_told_at_once_and_does_not_flood(scene: Scene) -> None:
    for _ in range(20):
        assert (await called(scene, "up__met", {}))["isError"]

    def of_denials(collector: Collector) -> list[dict[str, Any]]:
        return [one for one in collector.notices if one["kind"] == "denial"]

    scene.collector.until(lambda there: bool(of_denials(there)))
    async with scene.sidecar.admin() as admin:
        listed = (await admin.get("notices")).json()["items"]
    kept = [one for one in listed if one["kind"] == "denial"]
    assert {one["detail"]["reason"] for one in kept} == {"policy_denied"}
    assert kept[-1]["budget_id"] is None
    # Each process tells of them once in five minutes.
    assert len(kept) <= 2
    assert kept[-1]["detail"]["name"] == "up__met"


@pytest.mark.requirement("notice.approvals")
async def test_a_question_and_its_answer_are_told(scene: Scene) -> None:
    denied = await called(scene, "up__steps", {})
    approval_id = denied["_meta"]["flyball/denial"]["approval_id"]
    async with scene.sidecar.admin() as admin:
        answer = await admin.post(f"approvals/{approval_id}/approve", json={"reason": "fine"})
        assert answer.status_code == 200, answer.text

    def told(collector: Collector) -> list[dict[str, Any]]:
        return [
            one["detail"]
            for one in collector.notices
            if one["detail"].get("approval_id") == approval_id
        ]

    scene.collector.until(lambda there: len(told(there)) == 2)
    asked, decided = told(scene.collector)
    assert (asked["state"], asked["tool"], asked["decided_by"]) == ("pending", "up__steps", None)
    assert (decided["state"], decided["reason"]) == ("approved", "fine")
    assert decided["decided_by"]


@pytest.mark.requirement("metrics.bounded")
async def test_no_name_that_a_client_chooses_makes_a_series(scene: Scene) -> None:
    url = scene.sidecar.urls["admin"].removesuffix("/admin/v1") + "/metrics"
    async with httpx.AsyncClient(trust_env=False, timeout=SECONDS_MAX) as http:
        before = (await http.get(url)).text
        for number in range(30 if scene.sidecar.workers == 1 else 4):
            await hostile(scene, http, f"evil-{number}")
        await anyio.lowlevel.checkpoint()
        with anyio.fail_after(SECONDS_MAX):
            # Workers say how they are every two seconds.
            while 'mcp_method_name="_OTHER"' not in (after := (await http.get(url)).text):
                await anyio.sleep(0.1)

    assert "evil" not in after
    assert len(after.splitlines()) - len(before.splitlines()) < 200


async def hostile(scene: Scene, http: httpx.AsyncClient, name: str) -> None:
    """Send requests whose every name is one that only a client could have made up."""
    token = {"Authorization": f"Bearer {scene.sidecar.token('agent')}"}
    named = {
        "Flyball-Session": name,
        "Flyball-Turn": name,
        "Flyball-Task-Class": name,
        "Idempotency-Key": name,
        "User-Agent": name,
        "baggage": f"who={name}",
    }
    for method, tool in (("tools/call", name), (name, name), ("tools/call", "up__echo")):
        body = {
            "jsonrpc": "2.0",
            "id": name,
            "method": method,
            "params": {"name": tool, "arguments": {"text": name}, "_meta": META},
        }
        sent = {
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
            "Mcp-Name": tool,
        }
        await http.post(scene.sidecar.urls["agents"], json=body, headers=token | named | sent)
    chat = {"model": name, "messages": [{"role": "user", "content": name}], "user": name}
    models = scene.sidecar.urls["models"]
    await http.post(f"{models}/chat/completions", json=chat, headers=token | named)
    await http.post(f"{models}/{name}", json=chat, headers=token | named)
    outcome = {"success": True, "source": name, "task_class": name}
    await http.post(f"{models}/outcomes", json=outcome, headers=token | named)
