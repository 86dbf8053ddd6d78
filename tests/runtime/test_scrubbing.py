"""What libraries write into spans leaves without words of exceptions and without secrets."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, Status, StatusCode

from runtime.telemetry.scrubbing import scrubbed
from runtime.withheld import withhold

SECRET = "sk-canarycanarycanary0123456789"


def made() -> ReadableSpan:
    """Return a span as a library that knows no better writes it."""
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with provider.get_tracer("a-library").start_as_current_span(
        f"tools/call {SECRET}",
        kind=SpanKind.SERVER,
        attributes={"said": f"with {SECRET}", "many": ["x", SECRET], "count": 3, "is": True},
    ) as span:
        span.record_exception(RuntimeError(f"refused {SECRET} and a customer's words"))
        span.set_status(Status(StatusCode.ERROR, f"refused {SECRET}"))
    [ended] = exporter.get_finished_spans()
    return ended


@pytest.mark.requirement("trace.no-content")
def test_a_span_leaves_without_secrets_and_words_of_exceptions() -> None:
    before = made()

    after = scrubbed(before)

    assert SECRET in before.to_json()
    assert SECRET not in after.to_json()
    assert "customer" not in after.to_json()
    [event] = after.events
    assert dict(event.attributes or {})["exception.type"] == "RuntimeError"
    assert dict(after.attributes or {}) == {
        "said": "with [redacted]",
        "many": ("x", "[redacted]"),
        "count": 3,
        "is": True,
    }
    assert after.status.description == "refused [redacted]"


@pytest.mark.requirement("trace.no-content")
def test_a_secret_that_this_process_was_given_leaves_in_no_span_however_plain_it_is() -> None:
    given, exporter = withhold("plain-canary-of-an-operator"), InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    long = "x" * 500 + given
    with provider.get_tracer("a-library").start_as_current_span(f"call {given}") as span:
        span.set_attribute("said", long)
        span.set_status(Status(StatusCode.ERROR, given))
    [ended] = exporter.get_finished_spans()

    after = scrubbed(ended)

    assert "plain-canary" in ended.to_json()
    assert "plain-canary" not in after.to_json()


def test_everything_else_of_a_span_stays() -> None:
    before = made()

    after = scrubbed(before)

    for name in ("context", "parent", "kind", "start_time", "end_time", "resource", "links"):
        assert getattr(after, name) == getattr(before, name)
    assert after.instrumentation_scope == before.instrumentation_scope
    assert after.status.status_code is StatusCode.ERROR
