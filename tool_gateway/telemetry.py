"""Names of the gateway's spans and metrics, on the OpenTelemetry API alone."""

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache

from opentelemetry import metrics, trace

from governor.approval import ApprovalState
from governor.breaker import Phase
from governor.call import CallStatus
from governor.denial import DenialReason
from governor.ladder import Sight
from governor.turn_progress import Answer
from tool_gateway.tallies import Histogram, Level, Series, Tally

_tracer = trace.get_tracer("flyball.tool_gateway")
_NO_SPAN = nullcontext()
_NOBODY = (trace.ProxyTracerProvider, trace.NoOpTracerProvider)
_METER = "flyball.tool_gateway"
_meter = metrics.get_meter(_METER)


_calls = Tally(
    _meter,
    "flyball_calls",
    ("kind", "backend", "status"),
    description="Calls that ended, by status",
)
_denials = _meter.create_counter("flyball_denials", description="Calls not started, by reason")
_duration = Histogram(
    _METER, "flyball_call_duration", unit="ms", description="From admission to settlement"
)
_approvals = _meter.create_counter(
    "flyball_approvals", description="Questions to people, by what they became"
)
_memory_answers = _meter.create_counter(
    "flyball_memory_answers", description="Commands that asked for more memory, by the answer"
)
_reported_costs = _meter.create_counter(
    "flyball_reported_costs", description="Costs that upstreams reported, by what became of them"
)
_failures = _meter.create_counter(
    "flyball_posture_failures", description="Failures that a posture absorbed, by where"
)
_extensions = _meter.create_counter(
    "flyball_turn_extensions", description="Requests for more turns, by what was decided"
)
_answers = Tally(
    _meter,
    "flyball_tool_answers",
    ("backend", "brought"),
    description="Answers of tools: new to their session, seen before, or failed",
)
_outcomes = _meter.create_counter(
    "flyball_session_outcomes", description="Reported outcomes of sessions"
)
_notices = _meter.create_counter(
    "flyball_notices", description="Thresholds that were reached and denials only observed"
)


_flows = Tally(
    _meter,
    "flyball_flow_decisions",
    ("outcome",),
    description="Calls that flow rules looked at, by what came of it",
)


def count_flow(outcome: str) -> None:
    """Count a decision of the flow rules: allow, ask or deny."""
    _flows.add(outcome)


_gates = _meter.create_counter(
    "flyball_gates", description="Puzzles of gates: asked, solved, wrong, late, reused, forged"
)


def count_gate(outcome: str) -> None:
    """Count what came of a puzzle."""
    _gates.add(1, {"outcome": outcome})


_cached = Tally(
    _meter,
    "flyball_cached_calls",
    ("outcome",),
    description="Calls that the cache looked up: served or missed",
)


def count_cached(outcome: str) -> None:
    """Count a call that an earlier answer serves, or none did."""
    _cached.add(outcome)


_usages = Tally(
    _meter,
    "flyball_model_usage",
    ("backend", "which"),
    description="Model calls by who counted their tokens, and those whose report was doubted",
)


def count_usage(*, backend: str, which: str) -> None:
    """Count who said what a model call used: provider, tokenizer, bound, held, or doubted."""
    _usages.add(backend, which)


_schema_faults = _meter.create_counter(
    "flyball_schema_faults", description="Schemas of tools that cannot be used, or are not there"
)
_broken_promises = _meter.create_counter(
    "flyball_broken_promises", description="Results that broke their tool's own output schema"
)
_redactions = Tally(
    _meter,
    "flyball_redactions",
    ("detector",),
    description="Secrets taken out of results, by what found",
)


def count_schema_fault(*, backend: str, which: str) -> None:
    """Count an `input` or `output` schema of an upstream that checks nothing."""
    _schema_faults.add(1, {"backend": backend, "which": which})


def count_broken_promise(*, backend: str, outcome: str) -> None:
    """Count a result against its schema: `enforced`, `reported` or `unchecked`."""
    _broken_promises.add(1, {"backend": backend, "outcome": outcome})


def count_redaction(detector: str) -> None:
    """Count a secret that was taken out; `detector` is one of the configured ones."""
    _redactions.add(detector)


_ends = _meter.create_counter(
    "flyball_upstream_ends", description="Ends of upstreams and their connections, by cause"
)


def count_upstream_end(*, upstream: str, cause: str) -> None:
    """Count that an upstream ended; `upstream` is a configured name, `cause` a word of ours."""
    _ends.add(1, {"backend": upstream, "reason": cause})


def collects_spans() -> bool:
    """Tell whether anybody collects spans: what nobody collects is not worth its making."""
    return not isinstance(trace.get_tracer_provider(), _NOBODY)


def makes_spans() -> bool:
    """Tell whether a span that begins here would be collected: not below one that is not."""
    if not collects_spans():
        return False
    running = trace.get_current_span()
    return running.is_recording() or not running.get_span_context().is_valid


def span(name: str) -> AbstractContextManager[object]:
    """Return a span of ours, to be entered; nothing at all where nobody collects spans."""
    if not makes_spans():
        return _NO_SPAN
    return _tracer.start_as_current_span(name, record_exception=False)


def note_notice(*, kind: str, unit: str) -> None:
    """Count what a budget had to tell, and note it on the call's span."""
    _notices.add(1, {"kind": kind, "unit": unit})
    trace.get_current_span().add_event(f"flyball.{kind}", {"unit": unit})


def count_outcome(*, is_success: bool) -> None:
    """Count a report of how a session went."""
    _outcomes.add(1, {"success": str(is_success).lower()})


def count_extension(outcome: str) -> None:
    """Count a decision about more turns."""
    _extensions.add(1, {"outcome": outcome})


def count_answer(*, backend: str, brought: Answer) -> None:
    """Count what a tool call brought. `backend` is a configured name."""
    _answers.add(backend, brought.value)


_waiting = _meter.create_up_down_counter(
    "flyball_waiting", description="Calls that wait for a slot of their upstream now"
)
_wait = Histogram(
    _METER, "flyball_wait", unit="ms", description="How long calls waited that had to"
)
_limit = Level(
    _meter,
    "flyball_concurrency_limit",
    "backend",
    description="How many calls an upstream may run at once now",
)
_sheds = _meter.create_counter(
    "flyball_sheds", description="Calls turned away before admission, by why"
)


_breakers = _meter.create_gauge(
    "flyball_breaker",
    description="The breaker of an upstream or model provider: 0 closed, 1 half open, 2 open",
)
_breaker_changes = _meter.create_counter(
    "flyball_breaker_changes",
    description="Changes of breakers of upstreams and model providers, by where they went",
)
_BREAKER_VALUES = {Phase.CLOSED: 0, Phase.HALF_OPEN: 1, Phase.OPEN: 2}


def show_breaker(*, kind: str, backend: str, phase: Phase) -> None:
    """Show where the breaker of a backend stands, which is a configured name."""
    _breakers.set(_BREAKER_VALUES[phase], {"kind": kind, "backend": backend})


def count_breaker(*, kind: str, backend: str, phase: Phase) -> None:
    """Count a breaker that came into `phase`."""
    _breaker_changes.add(1, {"kind": kind, "backend": backend, "state": phase.value})


_retries = Tally(
    _meter,
    "flyball_retries",
    ("backend", "reason"),
    description="Requests that were sent again, by what their last attempt may have done",
)


def count_retry(*, upstream: str, after: str) -> None:
    """Count a request that is sent again: nothing of it was sent, or how it went is unknown."""
    _retries.add(upstream, after)


_fallbacks = Tally(
    _meter,
    "flyball_fallbacks",
    ("backend", "reason"),
    description="Model calls that another tier was asked for, by the provider and why it failed",
)
_keys = _meter.create_gauge(
    "flyball_provider_keys", description="Keys of a model provider, by whether they can be used"
)


def count_fallback(*, provider: str, reason: str) -> None:
    """Count a call that goes on at another tier, for `reason`."""
    _fallbacks.add(provider, reason)


def show_keys(*, provider: str, state: str, count: int) -> None:
    """Show how many keys of a provider are in a state."""
    _keys.set(count, {"backend": provider, "state": state})


@lru_cache(maxsize=1_024)
def _duration_of(kind: str, backend: str) -> Series:
    return _duration.of({"kind": kind, "backend": backend})


def count_ended(*, kind: str, backend: str, status: CallStatus, wall_ms: int) -> None:
    """Count a call that ran. `backend` is a configured name, so its values are bounded."""
    _calls.add(kind, backend, status.value)
    series = _duration_of(kind, backend)
    series.record(wall_ms)
    if collects_spans():
        _note_ended(series, status, wall_ms)


def _note_ended(series: Series, status: CallStatus, wall_ms: int) -> None:
    """Have the call's span say how it ended, and stand for its measurement if it is sent."""
    running = trace.get_current_span()
    running.set_attribute("flyball.status", status.value)
    context = running.get_span_context()
    if context.is_valid and context.trace_flags.sampled:
        series.exemplify(wall_ms, trace_id=context.trace_id, span_id=context.span_id)


def count_denied(*, kind: str, reason: DenialReason) -> None:
    """Count a call that was not started."""
    _denials.add(1, {"kind": kind, "reason": reason.value})


def count_approval(state: ApprovalState) -> None:
    """Count a question to a person that came into `state`."""
    _approvals.add(1, {"state": state.value})


def count_memory_answer(answer: Sight) -> None:
    """Count what became of a command that needed more memory."""
    _memory_answers.add(1, {"answer": answer.value})


def count_reported_cost(*, upstream: str, verdict: str) -> None:
    """Count a cost that an upstream reported: believed, untrusted or nonsense."""
    _reported_costs.add(1, {"upstream": upstream, "verdict": verdict})


_prepared_answers = _meter.create_counter(
    "flyball_memory_prepared_answers",
    description="Searches that an answer made beforehand served, or that found it outdated",
)
_tokens_saved = _meter.create_counter(
    "flyball_memory_prepared_tokens_saved",
    description="Tokens that answers made beforehand were shorter than what they stood for",
)
_quiet_works = _meter.create_counter(
    "flyball_memory_quiet_works", description="Works of the house in quiet hours, by kind"
)
_quiet_tokens = _meter.create_counter(
    "flyball_memory_quiet_tokens", description="Tokens that were read in quiet hours, by kind"
)


def count_prepared(outcome: str, *, saved: int = 0) -> None:
    """Count a search that has an answer made beforehand: served, or outdated."""
    _prepared_answers.add(1, {"outcome": outcome})
    if saved:
        _tokens_saved.add(saved)


def count_quiet_work(work: str, *, outcome: str, tokens: int = 0) -> None:
    """Count a work in quiet hours: done, denied or failed, and what was read for it."""
    _quiet_works.add(1, {"work": work, "outcome": outcome})
    if tokens:
        _quiet_tokens.add(tokens, {"work": work})


def count_failure(where: str) -> None:
    """Count a failure of the house itself that did not reach the caller."""
    _failures.add(1, {"where": where})


def count_waiting(*, backend: str, change: int) -> None:
    """Count a call in or out of its upstream's queue."""
    _waiting.add(change, {"backend": backend})


def note_wait(*, backend: str, wait_ms: int) -> None:
    """Note how long a call waited in the queue, however that ended."""
    _wait.of({"backend": backend}).record(wait_ms)


def show_limit(*, backend: str, limit: int) -> None:
    """Show how many calls an upstream may run at once from now on."""
    _limit.set(backend, limit)


def count_shed(*, backend: str, reason: str) -> None:
    """Count a call that got no slot; `reason` is one of a few words of ours."""
    _sheds.add(1, {"backend": backend, "reason": reason})


_choices = Tally(
    _meter,
    "flyball_router_choices",
    ("tier", "policy", "explored"),
    description="Tiers chosen for auto, by who chose and whether it was to learn from it",
)
_shadows = Tally(
    _meter,
    "flyball_router_shadow",
    ("outcome",),
    description="Choices of the candidate model in the shadow: agreed or differed",
)
_router_outcomes = Tally(
    _meter,
    "flyball_router_outcomes",
    ("source", "outcome"),
    description="Reports of what calls were worth: taken, repeated, or of unknown calls",
)
_drifts = Tally(
    _meter,
    "flyball_router_drifts",
    ("tier",),
    description="Tiers that are no longer what was learned",
)
_capped = Tally(
    _meter,
    "flyball_router_capped",
    (),
    description="Reports that count less, their agents having said enough for a day",
)


def note_choice(*, tier: str, policy: str, explored: bool, model: str | None) -> None:
    """Count the choice of a tier, a configured name, and note it on the call's span."""
    _choices.add(tier, policy, str(explored).lower())
    span_now = trace.get_current_span()
    if span_now.is_recording():
        span_now.set_attributes(
            {
                "flyball.tier": tier,
                "flyball.router.policy": policy,
                "flyball.router.explored": explored,
                "flyball.router.model": model or "",
            }
        )


def count_shadow(*, is_agreed: bool) -> None:
    """Count what the candidate would have chosen."""
    _shadows.add("agreed" if is_agreed else "differed")


def count_router_outcome(*, source: str, outcome: str) -> None:
    """Count a report of a call; `source` and `outcome` are words of ours."""
    _router_outcomes.add(source, outcome)


def count_drift(tier: str) -> None:
    """Count a tier that drifted; `tier` is a configured name."""
    _drifts.add(tier)


def count_capped(count: int) -> None:
    """Count reports whose weight was cut."""
    for _ in range(count):
        _capped.add()
