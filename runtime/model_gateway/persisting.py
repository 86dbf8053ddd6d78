"""The attempts of one hold at the provider of its tier, noted as they go."""

from dataclasses import replace

import anyio

from governor.providing.failure import Cause
from governor.tiers import ModelTier
from runtime.model_gateway.asking import ask
from runtime.model_gateway.attempts.care import ProviderCare
from runtime.model_gateway.attempts.trying import AttemptEnd, tried
from runtime.model_gateway.job import Job, Progress
from runtime.model_gateway.measured import Measured
from runtime.model_gateway.providers.pool import ProviderPool
from runtime.model_gateway.streams.relay import Outlet
from runtime.model_gateway.verdict import verdict_without_a_key
from tool_gateway.ports import Clock

# The one that asks for usage, and one that bounds the output.
_FIELDS_REFUSED_MAX = 2


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
        asked = job
        for _ in range(_FIELDS_REFUSED_MAX):
            asks_usage, caps = not progress.refuses_usage, progress.caps_instead
            if not _is_mistaken(progress) or (asks_usage and not caps):
                break
            # Nothing was generated, so the same hold covers asking in other words.
            asked = _in_other_words(asked, asks_usage=asks_usage, caps=caps)
            progress.begin_attempt(key)
            await ask(providers, asked, progress, outlet, now_ms=now_ms, whole_ms=left_ms)
            if progress.failure is None:
                _learn(care, asked.tier, job.tier)
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


def _learn(care: ProviderCare, heard: ModelTier, told: ModelTier) -> None:
    """Take note of what the provider had to be asked otherwise for."""
    if told.asks_for_usage and not heard.asks_for_usage:
        care.note_no_stream_usage()
    if heard.output_caps != told.output_caps:
        care.note_output_caps(heard.output_caps)


def _in_other_words(job: Job, *, asks_usage: bool, caps: tuple[str, ...]) -> Job:
    tier = replace(
        job.tier,
        asks_for_usage=job.tier.asks_for_usage and asks_usage,
        output_caps=caps or job.tier.output_caps,
    )
    payload = job.wire.payload(
        job.request,
        tier,
        note=job.note,
        output_tokens_max=job.payload.output_tokens_max // job.request.choices,
    )
    return replace(job, tier=tier, payload=payload)
