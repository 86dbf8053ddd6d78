"""Names of the gateway's spans and metrics, on the OpenTelemetry API alone."""

from opentelemetry import metrics, trace

from governor.approval import ApprovalState
from governor.call import CallStatus
from governor.denial import DenialReason

tracer = trace.get_tracer("flyball.tool_gateway")
_meter = metrics.get_meter("flyball.tool_gateway")

_calls = _meter.create_counter("flyball_calls", description="Calls that ended, by status")
_denials = _meter.create_counter("flyball_denials", description="Calls not started, by reason")
_duration = _meter.create_histogram(
    "flyball_call_duration", unit="ms", description="From admission to settlement"
)
_approvals = _meter.create_counter(
    "flyball_approvals", description="Questions to people, by what they became"
)
_reported_costs = _meter.create_counter(
    "flyball_reported_costs", description="Costs that upstreams reported, by what became of them"
)
_failures = _meter.create_counter(
    "flyball_posture_failures", description="Failures that a posture absorbed, by where"
)


def count_ended(*, kind: str, backend: str, status: CallStatus, wall_ms: int) -> None:
    """Count a call that ran. `backend` is a configured name, so its values are bounded."""
    attributes = {"kind": kind, "backend": backend, "status": status.value}
    _calls.add(1, attributes)
    _duration.record(wall_ms, {"kind": kind, "backend": backend})


def count_denied(*, kind: str, reason: DenialReason) -> None:
    """Count a call that was not started."""
    _denials.add(1, {"kind": kind, "reason": reason.value})


def count_approval(state: ApprovalState) -> None:
    """Count a question to a person that came into `state`."""
    _approvals.add(1, {"state": state.value})


def count_reported_cost(*, upstream: str, verdict: str) -> None:
    """Count a cost that an upstream reported: believed, untrusted or nonsense."""
    _reported_costs.add(1, {"upstream": upstream, "verdict": verdict})


def count_failure(where: str) -> None:
    """Count a failure of the house itself that did not reach the caller."""
    _failures.add(1, {"where": where})
