"""The attempts of one hold at the provider of its tier, noted as they go."""

from dataclasses import replace

import anyio

from governor.providing.failure import Cause
from runtime.model_gateway.asking import ask
from runtime.model_gateway.attempts.care import ProviderCare
from runtime.model_gateway.attempts.trying import AttemptEnd, tried
from runtime.model_gateway.job import Job, Progress
from runtime.model_gateway.measured import Measured
from runtime.model_gateway.providers.pool import ProviderPool
from runtime.model_gateway.streams.relay import Outlet
from runtime.model_gateway.verdict import verdict_without_a_key
from tool_gateway.ports import Clock


async def persist(
    care: ProviderCare,
    providers: ProviderPool,
    job: Job,
    progress: Progress,
    outlet: Outlet,
    *,
    clock: Clock,
    wished: int | None = None,
    rounds_before: int = 0,
) -> None:
    """Ask the provider of `job` as often as is safe, and note in `progress` how it went.

    The key that is `wished` for is used while it is ready; `rounds_before` are the attempts of
    the request's holds before, at the same tier.
    """

    async def attempt(key: int, left_ms: int) -> AttemptEnd:
        progress.begin_attempt(key)
        now_ms = clock.now_ms()
        await ask(providers, job, progress, outlet, now_ms=now_ms, whole_ms=left_ms)
        if progress.refuses_usage and _is_mistaken(progress):
            # Nothing was generated, so the same hold covers asking without.
            plain = _without_usage(job)
            progress.begin_attempt(key)
            await ask(providers, plain, progress, outlet, now_ms=now_ms, whole_ms=left_ms)
            if progress.failure is None:
                care.note_no_stream_usage()
        tokens = progress.tokens
        used = tokens.input_tokens + tokens.output_tokens if isinstance(tokens, Measured) else None
        return AttemptEnd(failure=progress.failure, tokens=used, has_begun=outlet.has_begun)

    async def pause(pause_ms: int) -> None:
        progress.rest()
        await anyio.sleep(pause_ms / 1000)

    end = await tried(
        care,
        attempt,
        clock=clock,
        pause=pause,
        tokens=job.payload.input_tokens_max + job.payload.output_tokens_max,
        time_ms=job.timeout_ms,
        wished=wished,
        rounds_before=rounds_before,
    )
    if end.failure is not None and not end.was_asked:
        progress.note(verdict_without_a_key(job.wire, end.failure))
        progress.never_left = True
    progress.recourse, progress.rounds = end.recourse, end.rounds


def _is_mistaken(progress: Progress) -> bool:
    failure = progress.failure
    return failure is not None and failure.cause is Cause.MISTAKEN


def _without_usage(job: Job) -> Job:
    tier = replace(job.tier, asks_for_usage=False)
    payload = job.wire.payload(
        job.request,
        tier,
        note=job.note,
        output_tokens_max=job.payload.output_tokens_max // job.request.choices,
    )
    return replace(job, tier=tier, payload=payload)
