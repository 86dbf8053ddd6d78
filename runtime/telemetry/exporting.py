"""Sending spans and metrics to a collector, where an operator names one."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from importlib import import_module
from types import ModuleType

import anyio
from opentelemetry import propagate, trace
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from runtime.telemetry.metrics import collect_metrics, resource_of
from runtime.telemetry.terms import ExportTerms
from tool_gateway import telemetry

logger = logging.getLogger(__name__)

# What is left to be sent at the end has this long; a collector that is away holds nobody up.
FLUSH_SECONDS_MAX = 5.0
# A name that a client chose is an attribute at most.
_LIMITS = SpanLimits(
    max_span_attributes=64,
    max_events=32,
    max_links=8,
    max_event_attributes=16,
    max_span_attribute_length=512,
)


@asynccontextmanager
async def exporting(
    terms: ExportTerms | None, *, version: str, process: str = "sidecar"
) -> AsyncIterator[None]:
    """Collect metrics for whoever reads them, and send them and spans while the block runs.

    `process` tells this process from others of its sidecar.
    """
    # What clients put into their baggage, which the usual propagators hand on, is their own.
    propagate.set_global_textmap(TraceContextTextMapPropagator())
    tracers = None if terms is None or not terms.traces else _traced(terms, version, process)
    meters = collect_metrics(version=version, process=process)
    reader = None
    if terms is not None and terms.metrics:
        reader = _otlp().metric_reader(terms)
        meters.add_metric_reader(reader)
    try:
        yield
    finally:
        await flushed(tracers, reader)


async def flushed(
    tracers: TracerProvider | None,
    reader: MetricReader | None,
    *,
    seconds_max: float = FLUSH_SECONDS_MAX,
) -> None:
    """Send what is left, in threads: a collector that is away holds nobody up for long."""
    with anyio.move_on_after(seconds_max, shield=True) as flushing:
        async with anyio.create_task_group() as tasks:
            if tracers is not None:
                tasks.start_soon(_in_thread, tracers.shutdown)
            if reader is not None:
                tasks.start_soon(_in_thread, reader.shutdown)
    if flushing.cancelled_caught:
        telemetry.count_failure("otlp_flush")
        logger.warning("the collector did not take what was left to send; it is lost")


async def _in_thread(work: Callable[[], None]) -> None:
    """Do a work in a thread that the process does not wait for, unlike those of a pool."""
    loop, is_done = asyncio.get_running_loop(), asyncio.Event()

    def worked() -> None:
        try:
            work()
        finally:
            # Where nobody waits any more, the loop may be gone.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(is_done.set)

    threading.Thread(target=worked, name="flyball-flush", daemon=True).start()
    await is_done.wait()


def _traced(terms: ExportTerms, version: str, process: str) -> TracerProvider | None:
    """Return what makes the spans of this process from now on."""
    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        logger.warning("the spans of this process go where it was first told to send them")
        return None
    provider = TracerProvider(
        sampler=ParentBased(TraceIdRatioBased(terms.sampled)),
        resource=resource_of(version=version, process=process),
        shutdown_on_exit=False,
        span_limits=_LIMITS,
    )
    provider.add_span_processor(_otlp().span_processor(terms))
    trace.set_tracer_provider(provider)
    return provider


def _otlp() -> ModuleType:
    """Return the exporters; who sends nothing does not wait for what they import."""
    return import_module("runtime.telemetry.otlp")
