"""What is decided about one job without asking anybody: is it refused, what is it settled at."""

from governor.call import Enforcement
from governor.denial import DenialReason, Denied, TooLarge
from governor.events import Reserved
from governor.limits import Isolation
from governor.policy import STATUS_TOOL
from governor.usage import Usage
from tool_gateway.access import refusal_of
from tool_gateway.denials import arguments_too_large, isolation_unavailable
from tool_gateway.job import Job, Progress
from tool_gateway.metering import usage_of


def is_told_anyway(job: Job, denied: Denied) -> bool:
    """Tell whether a call that a freeze denies only reads how its session stands."""
    is_frozen = denied.reason is DenialReason.SESSION_FROZEN
    is_status = job.entry.is_own and job.call.tool == STATUS_TOOL
    return is_frozen and is_status and job.rule.is_free


def refused_unasked(job: Job) -> Denied | None:
    """Return the denial of what needs no budget to be refused."""
    rule, isolated, call = job.rule, job.isolated, job.call
    refusal = refusal_of(
        job.entry,
        rule,
        policy=job.policy,
        tenant=call.chain.tenant,
        agent=call.chain.agent,
        is_read_only=call.is_read_only,
    )
    if refusal is not None:
        return refusal
    limit = rule.content.arguments_bytes_max
    if job.arguments_bytes > limit:
        return arguments_too_large(call.tool, TooLarge(limit=limit, got=job.arguments_bytes))
    if isolated is None or rule.isolation is Isolation.BEST_EFFORT:
        return None
    if isolated.enforcement is not Enforcement.ENFORCED or not isolated.contained:
        return isolation_unavailable(isolated.why or f"limits are only {isolated.enforcement}")
    return None


def usage_to_settle(job: Job, progress: Progress, reserved: Reserved, wall_ms: int) -> Usage | None:
    """Return what to settle; None when provably nothing was consumed."""
    if progress.never_left:
        return None
    return usage_of(
        job.rule,
        held=reserved.amount,
        wall_ms=wall_ms,
        # Whoever went away reads nothing. The gateway's own notes, which are told only once
        # the call is settled, are not counted.
        text_chars=0 if progress.result is None else progress.result.text_chars,
        backend=progress.meter.usage if progress.outcome is None else progress.outcome.usage,
        unmeasurable=job.backend.unmeasurable,
        price_microusd=0 if progress.outcome is None else progress.outcome.price_microusd,
    )
