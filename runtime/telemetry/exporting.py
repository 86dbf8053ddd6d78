"""Sending spans and metrics to a collector, where an operator names one."""

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib import import_module
from types import ModuleType

import anyio
from opentelemetry import propagate, trace
from opentelemetry.sdk.metrics.export import MetricReader
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from runtime.telemetry.deliveries import telling_of_what_is_taken
from runtime.telemetry.metrics import collect_metrics, resource_of
from runtime.telemetry.terms import ExportTerms
from tool_gateway import telemetry

logger = logging.getLogger(__name__)

# What is left to be sent at the end has this long, and only while the collector takes some of it.
FLUSH_SECONDS_MAX = 5.0
QUIET_SECONDS_MAX = 1.0
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
    quiet_seconds_max: float = QUIET_SECONDS_MAX,
) -> None:
    """Send what is left, in threads: a collector that is away holds nobody up for long."""
    works = [one.shutdown for one in (tracers, reader) if one is not None]
    if not works:
        return
    loop, progress = asyncio.get_running_loop(), asyncio.Queue[bool]()

    def said(*, is_end: bool) -> None:
        # Where nobody waits any more, the loop may be gone.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(progress.put_nowait, is_end)

    with telling_of_what_is_taken(partial(said, is_end=False)):
        for work in works:
            # Threads that the process does not wait for, unlike those of a pool.
            doing = partial(_done, work, partial(said, is_end=True))
            threading.Thread(target=doing, name="flyball-flush", daemon=True).start()
        is_sent = await _are_done(progress, len(works), seconds_max, quiet_seconds_max)
    if not is_sent:
        telemetry.count_failure("otlp_flush")
        logger.warning("the collector did not take what was left to send; it is lost")


async def _are_done(
    progress: asyncio.Queue[bool], works: int, seconds_max: float, quiet_seconds_max: float
) -> bool:
    """Tell whether so many works have ended; nobody waits on while nothing is taken."""
    with anyio.move_on_after(seconds_max, shield=True):
        while works:
            with anyio.move_on_after(quiet_seconds_max) as quiet:
                works -= await progress.get()
            if quiet.cancelled_caught:
                return False
    return not works


def _done(work: Callable[[], None], said: Callable[[], None]) -> None:
    try:
        work()
    finally:
        said()


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
