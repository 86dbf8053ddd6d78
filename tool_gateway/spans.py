"""Spans and durations of requests, by the semantic conventions for MCP and GenAI.

Where nobody collects spans none is made: each function then returns what does nothing. Nothing of
arguments, results or words of errors is in a span.
"""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import lru_cache

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from governor.admission import AdmissionRequest
from governor.call import ToolCall
from governor.denial import DenialReason
from tool_gateway.tallies import Histogram, Series
from tool_gateway.telemetry import collects_spans, makes_spans

_METER = "flyball.tool_gateway"
_tracer = trace.get_tracer(_METER)
_NO_SPAN: AbstractContextManager[Span | None] = nullcontext()
_NAME_CHARS_MAX = 200
# As the conventions divide them.
_SECONDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_served = Histogram(
    _METER,
    "mcp.server.operation.duration",
    unit="s",
    description="MCP request duration as observed on the receiver, until the result is sent.",
    bounds=_SECONDS,
)
_asked = Histogram(
    _METER,
    "mcp.client.operation.duration",
    unit="s",
    description="MCP request duration as observed on the sender, until the response is received.",
    bounds=_SECONDS,
)
# A client may send any method; whatever else it calls one is one more.
_METHODS = frozenset(
    {
        *("initialize", "ping", "server/discover", "logging/setLevel", "completion/complete"),
        *("tools/list", "tools/call", "prompts/list", "prompts/get", "subscriptions/listen"),
        *("resources/list", "resources/templates/list", "resources/read"),
        *("resources/subscribe", "resources/unsubscribe"),
        *("tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/list"),
    }
)
# An upstream may answer with any code; these are the protocol's.
_CODES = frozenset(
    {
        *("-32700", "-32600", "-32601", "-32602", "-32603"),
        *("-32000", "-32001", "-32002", "-32003", "-32020", "-32021", "-32022", "-32042"),
    }
)
_ANY_OTHER = "_OTHER"
_CALL = "tools/call"
TRACE_MEMBERS = ("traceparent", "tracestate")
TOOL_ERROR = "tool_error"


def now_s() -> float:
    """Return a time to measure from."""
    return asyncio.get_running_loop().time()


@lru_cache(maxsize=256)
def _series_of(is_server: bool, method: str, upstream: str, fault: str) -> Series:  # noqa: FBT001
    labels = {"mcp.method.name": method}
    if upstream:
        labels["flyball.upstream"] = upstream
    if fault:
        labels["error.type"] = fault
    return (_served if is_server else _asked).of(labels)


def note_served(method: str, *, began_s: float, fault: str = "") -> None:
    """Note how long a client's request took; `fault` is a word of ours, or an error's code."""
    if fault.lstrip("-").isdigit() and fault not in _CODES:
        fault = _ANY_OTHER
    known = method if method in _METHODS else _ANY_OTHER
    _record(_series_of(True, known, "", fault), began_s)  # noqa: FBT003


def note_asked(method: str, *, upstream: str, began_s: float, fault: str = "") -> None:
    """Note how long a request to an upstream took, which is a configured name."""
    known = method if method in _METHODS else _ANY_OTHER
    _record(_series_of(False, known, upstream, fault), began_s)  # noqa: FBT003


def _record(series: Series, began_s: float) -> None:
    seconds = now_s() - began_s
    series.record(seconds)
    exemplify(series, seconds)


def exemplify(series: Series, value: float) -> None:
    """Have the running span stand for a measurement, if it is one that is sent."""
    if not collects_spans():
        return
    context = trace.get_current_span().get_span_context()
    if context.is_valid and context.trace_flags.sampled:
        series.exemplify(value, trace_id=context.trace_id, span_id=context.span_id)


def serving(
    method: str, *, tool: str, version: str, request_id: object, meta: Mapping[str, object]
) -> AbstractContextManager[Span | None]:
    """Return the span of a client's request, to be entered; its parent is whom `meta` names.

    Without one there it is the span that runs.
    """
    if not collects_spans() or not (makes_spans() or TRACE_MEMBERS[0] in meta):
        return _NO_SPAN
    attributes = {
        **_about(method, tool),
        "mcp.protocol.version": version,
        "jsonrpc.request.id": str(request_id)[:_NAME_CHARS_MAX],
        "network.transport": "tcp",
        "network.protocol.name": "http",
    }
    return _begun(
        _named(method, tool), kind=SpanKind.SERVER, attributes=attributes, context=_parent(meta)
    )


def asking(
    method: str, *, name: object, upstream: str, version: str, request_id: int, address: str
) -> AbstractContextManager[Span | None]:
    """Return the span of a request to an upstream, to be entered."""
    if not makes_spans():
        return _NO_SPAN
    tool = name if isinstance(name, str) else ""
    host, _, port = address.rpartition(":")
    has_port = port.isdigit() and bool(host)
    attributes: dict[str, str | int] = {
        **_about(method, tool),
        "mcp.protocol.version": version,
        "jsonrpc.request.id": str(request_id),
        "server.address": host if has_port else address,
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "flyball.upstream": upstream,
    }
    if has_port:
        attributes["server.port"] = int(port)
    return _begun(_named(method, tool), kind=SpanKind.CLIENT, attributes=attributes)


def admitting(request: AdmissionRequest) -> AbstractContextManager[Span | None]:
    """Return the span of an admission, and tell the span that runs which call it is about."""
    if not makes_spans():
        return _NO_SPAN
    about = {
        "flyball.call_id": request.call_id,
        "flyball.tenant": request.chain.tenant,
        "flyball.agent": request.chain.agent,
        "flyball.session": request.chain.session,
        "flyball.backend": request.target.upstream,
        "gen_ai.conversation.id": request.session_name,
    }
    trace.get_current_span().set_attributes(about)
    return _begun("flyball.admit", kind=SpanKind.INTERNAL, attributes=about)


def note_denied(call: ToolCall, reason: DenialReason) -> None:
    """Note on the span that runs why a call was not started."""
    if not makes_spans():
        return
    running = trace.get_current_span()
    if running.is_recording():
        running.set_attributes(
            {
                "flyball.call_id": call.call_id,
                "flyball.tenant": call.chain.tenant,
                "flyball.agent": call.chain.agent,
                "flyball.session": call.chain.session,
                "flyball.denial.reason": reason.value,
            }
        )


def note_fault(span: Span | None, fault: str, *, is_code: bool = False) -> None:
    """Note on a span that its request ended badly: `fault` is the code of an error, or a word."""
    if span is None or not span.is_recording():
        return
    span.set_attribute("error.type", fault)
    if is_code:
        span.set_attribute("rpc.response.status_code", fault)
    span.set_status(Status(StatusCode.ERROR))


def context_to_send(meta: Mapping[str, object]) -> Mapping[str, str]:
    """Return what tells whoever is asked next which trace it is part of; empty without a trace.

    A client's own words in `meta` stand where nobody here collects spans.
    """
    running = trace.get_current_span()
    if not running.get_span_context().is_valid:
        return {}
    carrier: dict[str, str] = {}
    if running.is_recording() or TRACE_MEMBERS[0] not in meta:
        propagate.inject(carrier)
    return carrier


def _parent(meta: Mapping[str, object]) -> Context | None:
    """Return whom a request's `_meta` names, None where it names nobody."""
    sent = {name: value for name in TRACE_MEMBERS if isinstance(value := meta.get(name), str)}
    if TRACE_MEMBERS[0] not in sent:
        return None
    found = propagate.extract(sent)
    return found if trace.get_current_span(found).get_span_context().is_valid else None


def _about(method: str, tool: str) -> dict[str, str]:
    about = {"mcp.method.name": method}
    if method == _CALL:
        about |= {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool}
    elif method == "prompts/get":
        about["gen_ai.prompt.name"] = tool
    return about


def _named(method: str, tool: str) -> str:
    return f"{method} {tool}"[:_NAME_CHARS_MAX] if tool else method


@contextmanager
def _begun(
    name: str,
    *,
    kind: SpanKind,
    attributes: Mapping[str, str | int],
    context: Context | None = None,
) -> Iterator[Span]:
    """Run the block in a span, which is told the kind of an exception and none of its words."""
    with _tracer.start_as_current_span(
        name,
        context=context,
        kind=kind,
        attributes=attributes,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield span
        except BaseException as error:
            note_fault(span, type(error).__qualname__)
            raise
