"""What the client of a call is told beside its answer: what it was, what it used, what remains."""

import json
from collections.abc import Mapping
from urllib.parse import quote

from governor.usage import Usage
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.job import Job
from runtime.model_gateway.journey import names_of
from tool_gateway.metering import usage_json
from tool_gateway.tracking import Tracked

CALL_HEADER = "Flyball-Call"
TIER_HEADER = "Flyball-Tier"
CACHED_HEADER = "Flyball-Cached"
BUDGET_HEADER = "Flyball-Budget"
CLAMPED_HEADER = "Flyball-Output-Tokens-Max"
FALLBACK_HEADER = "Flyball-Fallback-After"
COMPACTED_HEADER = "Flyball-Compacted"
_BUDGETS_IN_HEADER_MAX = 16
# In ASCII, as headers are; made once, for it costs more than what it writes.
_compact = json.JSONEncoder(separators=(",", ":")).encode


def stream_headers(job: Job, standing: Tracked | None) -> dict[str, str]:
    """Return what is told beside a stream, whose bytes are the provider's own."""
    headers = dict(_headers(job))
    if standing is not None:
        budgets = [
            {"budget_id": line.budget_id, "unit": line.unit.value, "remaining": line.remaining}
            for line in standing.lines[:_BUDGETS_IN_HEADER_MAX]
        ]
        headers[BUDGET_HEADER] = _compact(budgets)
    return headers


def named(answer: Answer, job: Job, **more: object) -> Answer:
    """Return the answer with the call and the tier that it is about, and what else is given."""
    member: dict[str, object] = {
        "call_id": job.call.call_id,
        "tier": job.tier.name,
        "why": job.why,
    }
    if job.kept is not None:
        member["cached"] = True
    if job.wanted is not None:
        member["clamped"] = {"output_tokens_max": _allowed(job), "wanted": job.wanted}
    compacted = job.request.compacted
    if compacted is not None:
        member["compacted"] = {
            "results": compacted.results,
            "turns": compacted.turns,
            "tokens_saved": compacted.tokens_saved,
        }
    if job.legs:
        member["fallback_after"] = [
            {"call_id": leg.call_id, "tier": leg.tier, "why": leg.why} for leg in job.legs
        ]
    return answer.with_flyball({**member, **more}, headers=_headers(job))


def annotated(
    answer: Answer,
    job: Job,
    *,
    standing: Tracked | None,
    usage: Usage | None,
    usage_source: str | None,
    turns: Mapping[str, object] | None,
) -> Answer:
    """Return the answer with what the call used and what remains."""
    more = {} if turns is None else {"turns": turns}
    return named(
        answer,
        job,
        usage=None if usage is None else usage_json(usage),
        usage_source=usage_source,
        budget=None if standing is None else standing.shown,
        **more,
    )


def _headers(job: Job) -> Mapping[str, str]:
    headers = {
        CALL_HEADER: job.call.call_id,
        TIER_HEADER: quote(job.tier.name, safe=" "),
    }
    if job.kept is not None:
        headers[CACHED_HEADER] = "true"
    if job.wanted is not None:
        headers[CLAMPED_HEADER] = str(_allowed(job))
    compacted = job.request.compacted
    if compacted is not None:
        headers[COMPACTED_HEADER] = (
            f"results={compacted.results}, turns={compacted.turns}, "
            f"tokens_saved={compacted.tokens_saved}"
        )
    if job.legs:
        headers[FALLBACK_HEADER] = quote(names_of(job.legs), safe=" ;,")
    return headers


def _allowed(job: Job) -> int:
    return job.payload.output_tokens_max // job.request.choices
