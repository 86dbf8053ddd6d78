"""One request to a provider, from the bytes that leave to what became of them."""

import asyncio
from dataclasses import replace
from functools import partial

import anyio

from governor.call import CallStatus
from governor.providing.failure import Cause, Failure, failure_in_answer, failure_of
from runtime.errors import ProviderError
from runtime.model_gateway.answers import BAD_GATEWAY, provider_answer
from runtime.model_gateway.attempts.complaints import said_in
from runtime.model_gateway.attempts.named_rest import named_rest_ms
from runtime.model_gateway.counting.off_loop import counted, loaded
from runtime.model_gateway.counting.unreported import is_text_kept, produced_tokens_min
from runtime.model_gateway.errors import ProviderNotReachedError, ProviderTimedOutError
from runtime.model_gateway.job import Job, Progress
from runtime.model_gateway.measured import Measured, doubt_of
from runtime.model_gateway.providers.pool import ProviderPool, Received
from runtime.model_gateway.streams.relay import Outlet, Patience, StreamEnd, relayed
from runtime.model_gateway.translation.translated import TranslatedWire, TranslatingOutlet
from runtime.model_gateway.verdict import (
    SERVED,
    Refused,
    Verdict,
    failed,
    verdict_on_refused,
    verdict_on_served,
    verdict_without_answer,
)
from runtime.model_gateway.wires.output_caps import caps_instead
from runtime.model_gateway.wires.sse import data_of
from runtime.model_gateway.wires.wire import StreamMeter

# How long a client may take for the last words of a stream that was ended from outside.
FAREWELL_SECONDS_MAX = 2.0
# How long past the call's time a reader may still take, so that a late provider is told as one.
_READER_SECONDS_MORE = 0.25
_USAGE_OPTION = "stream_options"
_FAILED = failure_of(Cause.FAILED)
_UNREPORTED = "the provider reported no usage"
_CUT = "the stream was cut where what was held for it ends"
_NOT_READ = "the client did not read on until the call's time was over"
_BROKE_OFF = "the provider's stream broke off"
_STREAM_ERROR = "the provider ended the stream with an error"


async def ask(
    providers: ProviderPool,
    job: Job,
    progress: Progress,
    outlet: Outlet,
    *,
    now_ms: int,
    whole_ms: int | None = None,
) -> None:
    """Send the request of `job` once, relay its stream, and note in `progress` how it went.

    `whole_ms` is what remains of the call's time, None for all of it; `now_ms` is the clock's.
    """
    try:
        await _ask(providers, job, progress, outlet, now_ms=now_ms, whole_ms=whole_ms)
    except ProviderNotReachedError as error:
        answer = provider_answer(job.wire, BAD_GATEWAY, str(error), code="provider_unreachable")
        progress.note_release(str(error), answer, failure_of(Cause.UNREACHED))
    except ProviderError as error:
        verdict = verdict_without_answer(job.wire, error)
        progress.note(verdict)
        if outlet.has_begun and progress.meter is not None:
            progress.answer = None
            code = "provider_timed_out" if _is_late(error) else "provider_failed"
            await say_last(outlet, progress.meter.failure(str(error), code=code))
        if progress.meter is not None:
            progress.tokens = await progress.heard(job, why=verdict.detail)


async def say_last(outlet: Outlet, events: bytes) -> None:
    """Send what ends a stream, if its reader takes it in a moment."""
    with anyio.move_on_after(FAREWELL_SECONDS_MAX):
        await outlet.relay(events)


def _is_late(error: ProviderError) -> bool:
    return isinstance(error, ProviderTimedOutError)


async def _ask(
    providers: ProviderPool,
    job: Job,
    progress: Progress,
    outlet: Outlet,
    *,
    now_ms: int,
    whole_ms: int | None,
) -> None:
    """Send and receive.

    Raises:
        ProviderNotReachedError: provably nothing was sent.
        ProviderTimedOutError: the answer was not complete in time.
        ProviderFailedError: the request was sent and no whole answer came back.
    """
    times, is_streamed = providers.timeouts(job.tier), job.request.is_streamed
    patience = Patience(
        asyncio.get_running_loop().time(),
        whole_ms=times.whole_ms if whole_ms is None else whole_ms,
        first_ms=times.first_ms if is_streamed else None,
        between_ms=times.between_ms,
    )
    await loaded(job.tier)
    async with providers.asked(
        job.tier.provider,
        job.wire,
        job.payload,
        key=progress.key or 0,
        deadline=patience.first,
    ) as received:
        is_served = received.status in SERVED
        if is_streamed and is_served and await received.is_stream():
            await _relay(job, progress, received, outlet, patience)
        else:
            await _take_whole(job, progress, received, now_ms=now_ms)


async def _take_whole(job: Job, progress: Progress, received: Received, *, now_ms: int) -> None:
    content = await received.whole()
    progress.result_bytes = len(content)
    if received.status in SERVED:
        judge = partial(verdict_on_served, job.wire, content, job.payload, job.tier)
        progress.note(_told(job, await counted(job.tier, judge), content))
        return
    refused = Refused(
        status=received.status,
        content=content,
        retry_after_ms=named_rest_ms(received.headers(), now_ms=now_ms),
    )
    verdict = verdict_on_refused(job.wire, refused, job.payload, job.tier)
    progress.note(_told(job, verdict, content))
    if job.payload.strips_usage or isinstance(job.wire, TranslatedWire):
        progress.refuses_usage = _USAGE_OPTION in said_in(content).complaint.message
    progress.caps_instead = tuple(caps_instead(content, job.payload.output_caps))


def _told(job: Job, verdict: Verdict, content: bytes) -> Verdict:
    """Return a verdict whose answer, if it is the provider's own, is in the client's words."""
    answer = verdict.answer
    if not isinstance(job.wire, TranslatedWire) or answer.content is not content:
        return verdict
    told = job.wire.told(content, status=answer.status, now_ms=job.started_at_ms)
    return replace(verdict, answer=replace(answer, content=told))


async def _relay(
    job: Job, progress: Progress, received: Received, outlet: Outlet, patience: Patience
) -> None:
    meter = job.wire.meter(job.payload, keeps_text=is_text_kept(job.tier))
    progress.meter = meter
    held = job.payload.output_tokens_max

    def is_beyond() -> bool:
        reported = meter.reported
        if reported is not None and (reported.output_tokens or 0) > held:
            # The last word of a whole answer cuts nothing: it is an overrun, and recorded.
            return not meter.is_whole
        return produced_tokens_min(meter.produced, job.tier, ceiling=held) > held

    failure = _FAILED

    def note_error(event: bytes) -> None:
        nonlocal failure
        said = said_in(data_of(event))
        failure = failure_in_answer(said.complaint, status=said.status)

    end = StreamEnd.NOT_READ
    # A reader that stands still holds up the call, not what the provider has to answer for.
    with anyio.CancelScope(deadline=patience.ends_at + _READER_SECONDS_MORE):
        end = await relayed(
            received,
            meter,
            outlet,
            patience=patience,
            is_beyond=is_beyond,
            note_error=note_error,
        )
    if end is StreamEnd.FINISHED:
        # Whoever leaves from here on has had the whole answer.
        progress.status, progress.detail = CallStatus.OK, ""
    await _end(job, progress, meter, outlet, end, failure=failure)
    if end is StreamEnd.FINISHED:
        await received.drain()


async def _end(
    job: Job,
    progress: Progress,
    meter: StreamMeter,
    outlet: Outlet,
    end: StreamEnd,
    *,
    failure: Failure,
) -> None:
    """Send what is missing of a stream's end, and note how it ended."""
    tokens = await progress.heard(job, why=_UNREPORTED)
    match end:
        case StreamEnd.FINISHED:
            progress.note_stream(CallStatus.OK, doubt_of(tokens), tokens)
            if isinstance(outlet, TranslatingOutlet):
                with anyio.move_on_after(FAREWELL_SECONDS_MAX):
                    await outlet.finish()
        case StreamEnd.NOT_READ:
            progress.note_stream(CallStatus.CANCELLED, _NOT_READ, tokens)
        case StreamEnd.AT_CEILING:
            progress.note_stream(CallStatus.LIMIT_HIT, _CUT, tokens)
            await say_last(outlet, meter.cut(tokens if isinstance(tokens, Measured) else None))
        case StreamEnd.TOLD_OF_ERROR | StreamEnd.MALFORMED | StreamEnd.BROKE_OFF:
            is_told = end is StreamEnd.TOLD_OF_ERROR
            detail = meter.fault or (_STREAM_ERROR if is_told else _BROKE_OFF)
            if not outlet.has_begun:
                progress.note(failed(job.wire, detail, failure))
                progress.tokens = tokens
                return
            status = CallStatus.UPSTREAM_FAILED
            progress.note_stream(status, detail, tokens, failure=failure)
            if is_told:
                return
            message = f"The model call failed: {detail}."
            await say_last(outlet, meter.failure(message, code="provider_failed"))
