"""Spans and metrics of model calls by the semantic conventions for generative AI.

Nothing of what was asked or answered is in them. The labels of metrics are what the operator
configured or words of ours, so that no client can make more of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import lru_cache

from opentelemetry import metrics, trace
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from governor.call import CallStatus
from runtime.model_gateway.measured import Measured, Metered
from runtime.model_gateway.model_request import WireName
from runtime.model_gateway.said import Said
from runtime.model_gateway.streams.relay import Outlet
from tool_gateway import telemetry
from tool_gateway.spans import exemplify
from tool_gateway.tallies import Histogram, Series

_tracer = trace.get_tracer("flyball.model_gateway")
_METER = "flyball.model_gateway"
_meter = metrics.get_meter(_METER)
_NO_SPAN: AbstractContextManager[Span | None] = nullcontext()
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = tuple(4**power for power in range(14))

_duration = Histogram(
    _METER,
    "gen_ai.client.operation.duration",
    unit="s",
    description="GenAI operation duration.",
    bounds=_SECONDS,
)
_tokens = Histogram(
    _METER,
    "gen_ai.client.token.usage",
    unit="{token}",
    description="Number of input and output tokens used.",
    bounds=_TOKENS,
)
_first_chunk = Histogram(
    _METER,
    "gen_ai.client.operation.time_to_first_chunk",
    unit="s",
    description="Time to receive the first chunk of a stream.",
    bounds=_SECONDS,
)
_between_chunks = Histogram(
    _METER,
    "gen_ai.client.operation.time_per_output_chunk",
    unit="s",
    description="Time per output chunk after the first, of one stream in some.",
    bounds=_SECONDS,
)
_costs_microusd: dict[tuple[str, str], int] = {}


def _costs(_: CallbackOptions) -> Iterable[Observation]:
    for (tier, backend), cost_microusd in tuple(_costs_microusd.items()):
        yield Observation(cost_microusd, {"tier": tier, "backend": backend})


_meter.create_observable_counter(
    "flyball_model_cost_microusd",
    callbacks=[_costs],
    description="What model calls were charged",
)

_compacted = _meter.create_counter(
    "flyball_model_compacted",
    description="What gave way in conversations: results, turns, tokens, and what was left whole",
)


def count_compacted(*, results: int, turns: int, tokens_saved: int) -> None:
    """Count what gave way in a request to an index, and the tokens that it saved."""
    for which, count in (("results", results), ("turns", turns), ("tokens", tokens_saved)):
        if count > 0:
            _compacted.add(count, {"which": which})


def count_left_whole(count: int) -> None:
    """Count what stayed in a request as it could not be kept elsewhere."""
    if count:
        _compacted.add(count, {"which": "left_whole"})


# Noting each chunk of each stream would cost more than relaying it.
SAMPLED_EVERY = 16
# By the conventions these words are for these providers; any other is told by what it speaks.
_KNOWN_PROVIDERS = frozenset(
    {
        *("anthropic", "aws.bedrock", "azure.ai.inference", "azure.ai.openai", "cohere"),
        *("deepseek", "gcp.gemini", "gcp.gen_ai", "gcp.vertex_ai", "groq", "ibm.watsonx.ai"),
        *("mistral_ai", "moonshot_ai", "openai", "perplexity", "x_ai"),
    }
)
_OPERATIONS = {WireName.OPENAI_EMBEDDINGS: "embeddings"}
_FAULTS = frozenset(CallStatus) - {CallStatus.OK, CallStatus.LIMIT_HIT}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inference:
    """What is known of a model call before it runs; `wire` is the one that the provider speaks."""

    call_id: str
    session: str
    wire: WireName
    provider: str
    tier: str
    model: str
    output_tokens_max: int
    choices: int
    is_streamed: bool

    @property
    def labels(self) -> "Labels":
        """Return what the metrics of the call are counted under."""
        return _labels(self.wire, self.provider, self.model, self.tier)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """The labels of one tier's calls on one wire, and what is measured under them."""

    all: Mapping[str, str]
    duration: Series
    input_tokens: Series
    output_tokens: Series
    first_chunk: Series
    between_chunks: Series


@lru_cache(maxsize=1_024)
def _labels(wire: WireName, provider: str, model: str, tier: str) -> Labels:
    common = {
        "gen_ai.operation.name": _OPERATIONS.get(wire, "chat"),
        "gen_ai.provider.name": _provider_name(provider, wire),
        "gen_ai.request.model": model,
        "flyball.tier": tier,
    }
    return Labels(
        all=common,
        duration=_duration.of(common),
        input_tokens=_tokens.of({**common, "gen_ai.token.type": "input"}),
        output_tokens=_tokens.of({**common, "gen_ai.token.type": "output"}),
        first_chunk=_first_chunk.of(common),
        between_chunks=_between_chunks.of(common),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceEnd:
    """How a model call ended; None is unknown."""

    status: CallStatus
    tokens: Metered
    cost_microusd: int | None
    wall_ms: int
    first_ms: int | None = None
    said: Said | None = None


def span_of(inference: Inference) -> AbstractContextManager[Span | None]:
    """Return the span of a call, to be entered; None where nobody collects spans."""
    if not telemetry.makes_spans():
        return _NO_SPAN
    labels = inference.labels.all
    attributes: dict[str, str | int | bool] = {
        **labels,
        "gen_ai.conversation.id": inference.session,
        "gen_ai.request.stream": inference.is_streamed,
        "flyball.call_id": inference.call_id,
        "flyball.provider": inference.provider,
    }
    if inference.output_tokens_max:
        attributes["gen_ai.request.max_tokens"] = inference.output_tokens_max
    if inference.choices > 1:
        attributes["gen_ai.request.choice.count"] = inference.choices
    name = f"{labels['gen_ai.operation.name']} {inference.model}"
    return _tracer.start_as_current_span(
        name, kind=SpanKind.CLIENT, attributes=attributes, record_exception=False
    )


def note_end(inference: Inference, end: InferenceEnd, span: Span | None) -> None:
    """Count how a call ended, and note it on its span."""
    labels = inference.labels
    fault = {"error.type": end.status.value} if end.status in _FAULTS else {}
    duration = _duration.of({**labels.all, **fault}) if fault else labels.duration
    duration.record(end.wall_ms / 1000)
    exemplify(duration, end.wall_ms / 1000)
    if isinstance(end.tokens, Measured):
        labels.input_tokens.record(end.tokens.input_tokens)
        if end.tokens.output_tokens:
            labels.output_tokens.record(end.tokens.output_tokens)
    if end.cost_microusd:
        where = (inference.tier, inference.provider)
        _costs_microusd[where] = _costs_microusd.get(where, 0) + end.cost_microusd
    if end.first_ms is not None:
        labels.first_chunk.record(end.first_ms / 1000)
    if span is not None and span.is_recording():
        span.set_attributes({**_told_of(end), **fault})
        if fault:
            span.set_status(Status(StatusCode.ERROR))


def _told_of(end: InferenceEnd) -> Mapping[str, str | int | float | Sequence[str]]:
    told: dict[str, str | int | float | Sequence[str]] = {}
    if isinstance(end.tokens, Measured):
        told |= {
            "gen_ai.usage.input_tokens": end.tokens.input_tokens,
            "gen_ai.usage.output_tokens": end.tokens.output_tokens,
            "gen_ai.usage.cache_read.input_tokens": end.tokens.cached_tokens,
            "gen_ai.usage.cache_creation.input_tokens": end.tokens.cache_write_tokens,
            "flyball.usage_source": end.tokens.source.value,
        }
    if end.cost_microusd is not None:
        told["flyball.cost_microusd"] = end.cost_microusd
    if end.first_ms is not None:
        told["gen_ai.response.time_to_first_chunk"] = end.first_ms / 1000
    if end.said is not None:
        said = {
            "gen_ai.response.model": end.said.model,
            "gen_ai.response.id": end.said.answer_id,
            "gen_ai.response.finish_reasons": end.said.finish_reasons or None,
        }
        told |= {name: value for name, value in said.items() if value is not None}
    return told


def _provider_name(provider: str, wire: WireName) -> str:
    if provider in _KNOWN_PROVIDERS:
        return provider
    return "anthropic" if wire is WireName.ANTHROPIC_MESSAGES else "openai"


class TimedOutlet:
    """Notes when the events of a stream leave for the client."""

    __slots__ = (
        *("_before_ms", "_began_ms", "_between", "_elapsed_ms", "_outlet", "_said"),
        "first_ms",
    )

    def __init__(
        self,
        outlet: Outlet,
        *,
        elapsed_ms: Callable[[], int],
        sampled: Inference | None,
        said: Said | None = None,
    ) -> None:
        """Take where the events go, and who hears them.

        The time between them is noted of a call that is `sampled`.
        """
        self._outlet = outlet
        self._said = said
        self._elapsed_ms = elapsed_ms
        self._between = None if sampled is None else sampled.labels.between_chunks
        self._began_ms = elapsed_ms()
        self._before_ms = 0
        self.first_ms: int | None = None

    @property
    def has_begun(self) -> bool:
        """Tell whether the client was sent anything."""
        return self._outlet.has_begun

    async def relay(self, events: bytes) -> None:
        """Send whole events."""
        if self._said is not None:
            self._said.hear(events)
        if self.first_ms is None:
            self._before_ms = self._elapsed_ms()
            self.first_ms = self._before_ms - self._began_ms
        elif self._between is not None:
            now_ms = self._elapsed_ms()
            self._between.record((now_ms - self._before_ms) / 1000)
            self._before_ms = now_ms
        await self._outlet.relay(events)
