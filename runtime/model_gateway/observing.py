"""One call as it is watched: its span, the times of its stream, and the words it is told in."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import count
from types import TracebackType

from opentelemetry.trace import Span

from governor.amounts import Unit
from governor.target import CallKind
from governor.usage import Usage
from runtime.model_gateway.job import Job, Progress
from runtime.model_gateway.said import Said
from runtime.model_gateway.streams.relay import Outlet
from runtime.model_gateway.telemetry import (
    SAMPLED_EVERY,
    Inference,
    InferenceEnd,
    TimedOutlet,
    note_end,
    span_of,
)
from runtime.model_gateway.translation.translated import TranslatedWire
from tool_gateway import telemetry

_NO_SPAN: AbstractContextManager[None] = nullcontext()


@dataclass(slots=True)
class Watched:
    """A call under way; its stream goes to `outlet`."""

    job: Job
    inference: Inference
    span: Span | None
    outlet: Outlet
    timed: TimedOutlet | None
    said: Said | None

    def note_end(self, progress: Progress, usage: Usage | None, *, wall_ms: int) -> None:
        """Count and note how it ended."""
        telemetry.count_ended(
            kind=CallKind.MODEL.value,
            backend=self.job.tier.provider,
            status=progress.status,
            wall_ms=wall_ms,
        )
        if self.job.kept is not None:
            return
        if self.said is not None and progress.answer is not None:
            self.said.hear(progress.answer.content)
        end = InferenceEnd(
            status=progress.status,
            tokens=progress.tokens,
            cost_microusd=None if usage is None else self._charged(usage),
            wall_ms=wall_ms,
            first_ms=None if self.timed is None else self.timed.first_ms,
            said=self.said,
        )
        note_end(self.inference, end, self.span)

    def _charged(self, usage: Usage) -> int:
        """Return what the call is charged: what nobody measured as it was held."""
        measured = usage.measured.by_unit.get(Unit.COST_MICROUSD)
        return self.job.estimate.of(Unit.COST_MICROUSD) if measured is None else measured


class Watching:
    """Watches the calls of one gateway."""

    def __init__(self, elapsed_ms: Callable[[], int]) -> None:
        """Take the clock that spans of time are read from."""
        self._elapsed_ms = elapsed_ms
        self._streams = count()

    def watched(self, job: Job, outlet: Outlet) -> "Watch":
        """Return the watch over a call that is about to be sent, to be entered."""
        is_streamed = job.request.is_streamed
        is_sampled = is_streamed and next(self._streams) % SAMPLED_EVERY == 0
        return Watch(job, outlet, self._elapsed_ms, is_sampled=is_sampled)


class Watch:
    """A call's span and the times of its stream, as a `with` block."""

    __slots__ = ("_elapsed_ms", "_is_sampled", "_job", "_outlet", "_span")

    def __init__(
        self, job: Job, outlet: Outlet, elapsed_ms: Callable[[], int], *, is_sampled: bool
    ) -> None:
        """Take the call, where its stream goes, and the clock."""
        self._job = job
        self._outlet = outlet
        self._elapsed_ms = elapsed_ms
        self._is_sampled = is_sampled
        self._span: AbstractContextManager[Span | None] = _NO_SPAN

    def __enter__(self) -> Watched:
        """Begin the span, where anybody collects them."""
        job = self._job
        inference = _inference(job)
        said, timed, outlet = None, None, self._outlet
        # What was kept is answered without a model.
        if job.kept is None and telemetry.makes_spans():
            said, self._span = Said(), span_of(inference)
        if job.request.is_streamed:
            timed = TimedOutlet(
                outlet,
                elapsed_ms=self._elapsed_ms,
                sampled=inference if self._is_sampled else None,
                said=said,
            )
            outlet = _told(job, timed)
        return Watched(job, inference, self._span.__enter__(), outlet, timed, said)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """End the span."""
        return self._span.__exit__(kind, error, trace)


def _told(job: Job, outlet: Outlet) -> Outlet:
    """Return where the provider's events go, to be told in the client's words if need be."""
    if not isinstance(job.wire, TranslatedWire):
        return outlet
    return job.wire.outlet(outlet, job.request, now_ms=job.started_at_ms)


def _inference(job: Job) -> Inference:
    return Inference(
        call_id=job.call.call_id,
        session=job.session_name,
        wire=job.payload.request.wire,
        provider=job.tier.provider,
        tier=job.tier.name,
        model=job.tier.model,
        output_tokens_max=job.payload.output_tokens_max,
        choices=job.request.choices,
        is_streamed=job.request.is_streamed,
    )
