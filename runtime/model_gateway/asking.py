"""One request to a provider, from the bytes that leave to what became of them."""

from dataclasses import replace
from functools import partial

import anyio

from governor.call import CallStatus
from runtime.errors import ProviderError
from runtime.model_gateway.answers import BAD_GATEWAY, provider_answer
from runtime.model_gateway.counting.off_loop import counted, loaded
from runtime.model_gateway.counting.unreported import is_text_kept, produced_tokens_min
from runtime.model_gateway.errors import ProviderNotReachedError, ProviderTimedOutError
from runtime.model_gateway.job import Job, Progress
from runtime.model_gateway.measured import Measured, doubt_of
from runtime.model_gateway.providers.pool import ProviderPool, Received
from runtime.model_gateway.streams.relay import Outlet, Patience, StreamEnd, relayed
from runtime.model_gateway.translation.translated import TranslatedWire, TranslatingOutlet
from runtime.model_gateway.verdict import (
    OK,
    Refused,
    Verdict,
    failed,
    verdict_on_refused,
    verdict_on_served,
    verdict_without_answer,
)
from runtime.model_gateway.wires.wire import StreamMeter

# How long a client may take for the last words of a stream that was ended from outside.
FAREWELL_SECONDS_MAX = 2.0
_UNREPORTED = "the provider reported no usage"
_CUT = "the stream was cut where what was held for it ends"
_BROKE_OFF = "the provider's stream broke off"
_STREAM_ERROR = "the provider ended the stream with an error"


async def ask(providers: ProviderPool, job: Job, progress: Progress, outlet: Outlet) -> None:
    """Send the request of `job`, relay its stream, and note in `progress` how it went."""
    try:
        await _ask(providers, job, progress, outlet)
    except ProviderNotReachedError as error:
        answer = provider_answer(job.wire, BAD_GATEWAY, str(error), code="provider_unreachable")
        progress.note_release(str(error), answer)
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


async def _ask(providers: ProviderPool, job: Job, progress: Progress, outlet: Outlet) -> None:
    """Send and receive.

    Raises:
        ProviderNotReachedError: provably nothing was sent.
        ProviderTimedOutError: the answer was not complete in time.
        ProviderFailedError: the request was sent and no whole answer came back.
    """
    times, is_streamed = providers.timeouts(job.tier.provider), job.request.is_streamed
    patience = Patience(
        whole_ms=times.whole_ms,
        first_ms=times.first_ms if is_streamed else None,
        between_ms=times.between_ms,
    )
    await loaded(job.tier)
    with patience.scope:
        async with providers.asked(job.tier.provider, job.wire, job.payload) as received:
            if is_streamed and received.status == OK and received.is_stream:
                await _relay(job, progress, received, outlet, patience)
            else:
                await _take_whole(job, progress, received)
    if patience.scope.cancelled_caught:
        raise ProviderTimedOutError


async def _take_whole(job: Job, progress: Progress, received: Received) -> None:
    content = await received.whole()
    progress.result_bytes = len(content)
    if received.status == OK:
        judge = partial(verdict_on_served, job.wire, content, job.payload, job.tier)
        progress.note(_told(job, await counted(job.tier, judge), content))
        return
    refused = Refused(status=received.status, content=content, retry_after=received.retry_after)
    verdict = verdict_on_refused(job.wire, refused, job.payload, job.tier)
    progress.note(_told(job, verdict, content))


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

    end = await relayed(received, meter, outlet, patience=patience, is_beyond=is_beyond)
    await _end(job, progress, meter, outlet, end)


async def _end(
    job: Job, progress: Progress, meter: StreamMeter, outlet: Outlet, end: StreamEnd
) -> None:
    """Send what is missing of a stream's end, and note how it ended."""
    tokens = await progress.heard(job, why=_UNREPORTED)
    match end:
        case StreamEnd.FINISHED:
            progress.note_stream(CallStatus.OK, doubt_of(tokens), tokens)
            if isinstance(outlet, TranslatingOutlet):
                await outlet.finish()
        case StreamEnd.AT_CEILING:
            progress.note_stream(CallStatus.LIMIT_HIT, _CUT, tokens)
            await outlet.relay(meter.cut(tokens if isinstance(tokens, Measured) else None))
        case StreamEnd.TOLD_OF_ERROR:
            progress.note_stream(CallStatus.UPSTREAM_FAILED, meter.fault or _STREAM_ERROR, tokens)
        case StreamEnd.MALFORMED | StreamEnd.BROKE_OFF:
            detail = meter.fault or _BROKE_OFF
            if not outlet.has_begun:
                progress.note(failed(job.wire, detail))
                progress.tokens = tokens
                return
            progress.note_stream(CallStatus.UPSTREAM_FAILED, detail, tokens)
            message = f"The model call failed: {detail}."
            await say_last(outlet, meter.failure(message, code="provider_failed"))
