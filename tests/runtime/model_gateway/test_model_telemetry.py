"""Spans and metrics of model calls: the conventions' names, few labels, and no content."""

from collections.abc import Iterator
from dataclasses import replace

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from governor.call import CallStatus
from runtime.model_gateway import telemetry
from runtime.model_gateway.measured import Measured, Unmeasured
from runtime.model_gateway.model_request import WireName
from runtime.model_gateway.said import Said
from runtime.model_gateway.telemetry import (
    Inference,
    InferenceEnd,
    TimedOutlet,
    note_end,
    span_of,
)
from runtime.telemetry import collect_metrics, exposition
from runtime.version import VERSION
from tests.model_upstream.chat_goldens import CHAT as GOLDENS
from tests.model_upstream.chat_goldens import completion
from tests.model_upstream.upstream import an_upstream, answering, streaming
from tests.runtime.model_gateway.bench import open_house, tier
from tests.runtime.test_telemetry import value_of

SECONDS_MAX = 60

CHAT = Inference(
    call_id="call-1",
    session="s-1",
    wire=WireName.OPENAI_CHAT,
    provider="lab",
    tier="low",
    model="small-1",
    output_tokens_max=100,
    choices=1,
    is_streamed=True,
)
TOKENS = Measured(input_tokens=10, output_tokens=5, cached_tokens=4, cache_write_tokens=1)
ENDED = InferenceEnd(
    status=CallStatus.OK, tokens=TOKENS, cost_microusd=20, wall_ms=1_500, first_ms=200
)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Collect spans while a test runs; the API keeps one provider for a whole process."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(telemetry, "_tracer", provider.get_tracer("test"))
    yield exporter
    provider.shutdown()


@pytest.fixture(autouse=True)
def collected() -> None:
    collect_metrics(version=VERSION)


class Kept:
    """Where a stream goes in these tests."""

    has_begun = False

    async def relay(self, events: bytes) -> None:
        self.has_begun = True


def only(spans: InMemorySpanExporter) -> ReadableSpan:
    [span] = spans.get_finished_spans()
    return span


def run(inference: Inference, end: InferenceEnd) -> None:
    with span_of(inference) as span:
        note_end(inference, end, span)


@pytest.mark.requirement("model.spans-by-the-conventions")
def test_a_call_has_a_span_by_the_conventions(spans: InMemorySpanExporter) -> None:
    said = Said()
    said.hear(b'data: {"id":"c-1","model":"small-1-0613","choices":[{"delta":{}}]}\n\n')
    said.hear(b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')

    run(CHAT, replace(ENDED, said=said))

    span = only(spans)
    assert (span.name, span.kind) == ("chat small-1", SpanKind.CLIENT)
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "small-1",
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.stream": True,
        "gen_ai.conversation.id": "s-1",
        "gen_ai.response.id": "c-1",
        "gen_ai.response.model": "small-1-0613",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.response.time_to_first_chunk": 0.2,
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "gen_ai.usage.cache_creation.input_tokens": 1,
        "flyball.call_id": "call-1",
        "flyball.cost_microusd": 20,
        "flyball.provider": "lab",
        "flyball.tier": "low",
        "flyball.usage_source": "provider",
    }


def test_a_call_that_failed_says_so_and_claims_no_tokens(spans: InMemorySpanExporter) -> None:
    failed = InferenceEnd(
        status=CallStatus.UPSTREAM_FAILED,
        tokens=Unmeasured(why="unknown"),
        cost_microusd=None,
        wall_ms=3,
    )

    run(CHAT, failed)

    span = only(spans)
    assert span.status.status_code is StatusCode.ERROR
    attributes = dict(span.attributes or {})
    assert attributes["error.type"] == "upstream_failed"
    assert not [name for name in attributes if name.startswith("gen_ai.usage")]


def test_a_stream_that_was_cut_at_its_ceiling_is_no_error(spans: InMemorySpanExporter) -> None:
    run(CHAT, replace(ENDED, status=CallStatus.LIMIT_HIT))

    assert "error.type" not in dict(only(spans).attributes or {})


@pytest.mark.parametrize(
    ("provider", "wire", "expected"),
    [
        ("deepseek", WireName.OPENAI_CHAT, ("chat", "deepseek")),
        ("mine", WireName.ANTHROPIC_MESSAGES, ("chat", "anthropic")),
        ("mine", WireName.OPENAI_RESPONSES, ("chat", "openai")),
        ("mine", WireName.OPENAI_EMBEDDINGS, ("embeddings", "openai")),
    ],
)
def test_operation_and_provider_are_words_of_the_conventions(
    provider: str, wire: WireName, expected: tuple[str, str]
) -> None:
    labels = replace(CHAT, provider=provider, wire=wire).labels.all

    assert (labels["gen_ai.operation.name"], labels["gen_ai.provider.name"]) == expected


def test_what_a_call_used_is_counted_by_tier_and_model() -> None:
    inference = replace(CHAT, tier="telemetry-tier", model="telemetry-model")

    run(inference, ENDED)
    run(inference, ENDED)

    by = {"gen_ai_request_model": "telemetry-model", "flyball_tier": "telemetry-tier"}
    assert value_of("gen_ai_client_operation_duration_seconds_sum", **by) == 3
    assert value_of("gen_ai_client_token_usage_sum", gen_ai_token_type="input", **by) == 20
    assert value_of("gen_ai_client_token_usage_sum", gen_ai_token_type="output", **by) == 10
    first = "gen_ai_client_operation_time_to_first_chunk_seconds"
    assert value_of(f"{first}_count", **by) == 2
    assert value_of(f"{first}_bucket", le="0.16", **by) == 0
    assert value_of(f"{first}_bucket", le="0.32", **by) == 2
    assert value_of("flyball_model_cost_microusd_total", tier="telemetry-tier") == 40


@pytest.mark.anyio
async def test_what_a_failed_call_is_charged_is_counted_too() -> None:
    async with open_house(tiers=(tier("telemetry-failing"),)) as house:
        house.budget(cost_microusd=10_000_000)
        house.provider_answers(200, content=b"no answer")
        await house.chat(model="telemetry-failing")
        charged = (await house.ledger.spent())[0]

    assert charged > 0
    counted = value_of("flyball_model_cost_microusd_total", tier="telemetry-failing")
    assert counted == charged


@pytest.mark.anyio
async def test_the_time_to_and_between_chunks_is_taken_where_they_leave() -> None:
    inference = replace(CHAT, tier="telemetry-chunks")
    times = iter([1_000, 1_250, 1_260, 1_300])
    outlet = TimedOutlet(Kept(), elapsed_ms=lambda: next(times), sampled=inference)

    for _ in range(3):
        await outlet.relay(b"data: {}\n\n")

    assert outlet.first_ms == 250
    assert outlet.has_begun
    between = "gen_ai_client_operation_time_per_output_chunk_seconds"
    assert value_of(f"{between}_count", flyball_tier="telemetry-chunks") == 2
    assert value_of(f"{between}_sum", flyball_tier="telemetry-chunks") == pytest.approx(0.05)


@pytest.mark.parametrize(
    "content",
    [
        b'data: {"model":"m","choices":[{"finish_reason":"length"}]}\n\n',
        b'{"model":"m","choices":[{"finish_reason": "length"}]}',
        b'event: x\r\ndata: {"type":"x","message":{"model":"m"},"stop_reason":"length"}\r\n\r\n',
        b'data: {"type":"x","response":{"model":"m","status":"length"}}\n\n',
    ],
)
def test_an_answer_of_any_wire_names_its_model_and_its_end(content: bytes) -> None:
    said = Said()

    said.hear(content)

    assert (said.model, said.finish_reasons) == ("m", ("length",))


@pytest.mark.anyio
@pytest.mark.requirement("model.no-content-in-spans")
@pytest.mark.parametrize("is_streamed", [False, True])
async def test_a_call_through_the_gateway_is_told_without_its_content(
    spans: InMemorySpanExporter, *, is_streamed: bool
) -> None:
    golden = next(golden for golden in GOLDENS if golden.name == "text")
    answer = streaming(golden.events) if is_streamed else answering(completion())
    by = {"flyball_tier": "low", "gen_ai_token_type": "output"}
    before = value_of("gen_ai_client_token_usage_sum", **by)
    words = {"messages": [{"role": "user", "content": "my_secret question"}], "user": "my_secret"}

    with anyio.fail_after(SECONDS_MAX):
        async with an_upstream(answer) as upstream, open_house(base_url=upstream.base_url) as house:
            house.budget(cost_microusd=1_000_000)
            asked = {**golden.request, **words, "model": "low", "stream": is_streamed}
            answered = await house.client.post("/v1/chat/completions", json=asked)

    assert answered.status_code == 200, answered.text
    span = only(spans)
    attributes = dict(span.attributes or {})
    assert span.name == "chat small-1"
    assert attributes["gen_ai.response.finish_reasons"] == ("stop",)
    assert attributes["gen_ai.usage.output_tokens"] == golden.truth.output_tokens
    assert attributes["flyball.cost_microusd"] == 9 + 2 * golden.truth.output_tokens
    assert ("gen_ai.response.time_to_first_chunk" in attributes) is is_streamed
    assert "my_secret" not in span.to_json()
    assert "Hello" not in span.to_json()
    counted = value_of("gen_ai_client_token_usage_sum", **by) - before
    assert counted == golden.truth.output_tokens
    exposed = exposition()[0]
    assert b"my_secret" not in exposed
    assert not [line for line in exposed.splitlines() if b"model" in line and b"implicit" in line]


@pytest.mark.anyio
async def test_a_denied_call_has_no_span_of_a_model(spans: InMemorySpanExporter) -> None:
    with anyio.fail_after(SECONDS_MAX):
        async with open_house() as house:
            house.budget(cost_microusd=1)
            denied = await house.chat()

    assert denied.status_code == 429
    assert not spans.get_finished_spans()


@pytest.mark.requirement("model.no-content-in-spans")
@pytest.mark.parametrize(
    "content",
    [
        b'{"model":"m","content":[{"input":{"stop_reason":"my_secret"}}]}',
        b'{"model":"m","content":"\\"finish_reason\\": \\"stop\\""}',
        b"not JSON: my_secret",
        b'{"model": ["my_secret"]}',
    ],
)
def test_no_words_of_an_answer_are_taken_for_how_it_ended(content: bytes) -> None:
    said = Said()

    said.hear(content)

    assert said.finish_reasons == ()
    assert said.model in {None, "m"}
