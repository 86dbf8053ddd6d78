"""The metrics that Prometheus reads: ours, under names and labels that stay few."""

from collections.abc import Iterator
from pathlib import Path

import anyio
import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from prometheus_client.parser import text_string_to_metric_families

from governor.breaker import BreakerTerms, Permit, Sign
from governor.call import CallStatus
from governor.denial import DenialReason
from governor.target import CallKind
from runtime.configuration.listen import Listen
from runtime.configuration.model import Config
from runtime.serving import serving
from runtime.telemetry import collect_metrics, exposition
from runtime.version import VERSION
from tests.tool_gateway.makers import FakeClock
from tool_gateway import telemetry
from tool_gateway.breakers import UpstreamBreaker

# Every label that one of our metrics may have; a new one is a decision.
LABELS = {"kind", "backend", "status", "reason", "where", "le"}
# Of an approval, a tool's answer, a session's outcome: words of ours, a few each.
LABELS |= {"state", "brought", "success", "outcome", "which"}
# A detector of secrets is one of the configured ones.
LABELS |= {"detector"}
# Of a model call: the wire's kind, the provider, the tier and its model, all of them configured.
LABELS |= {"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model", "flyball_tier"}
LABELS |= {"gen_ai_token_type", "error_type", "tier"}
# Of a choice of the router: a configured tier, and words of ours.
LABELS |= {"tier", "policy", "explored", "source"}
# Of what the house does in quiet hours: which of its works, and how it ended, in words of ours.
LABELS |= {"work", "outcome"}
# Of an MCP request: the protocol's methods, a configured upstream, and a few codes.
LABELS |= {"mcp_method_name", "flyball_upstream", "error_type"}
# Of a notice: a kind, and a unit of budgets.
LABELS |= {"unit"}
OF_THE_LIBRARY = "otel_scope_"


@pytest.fixture(scope="module", autouse=True)
def collected() -> None:
    collect_metrics(version=VERSION)


def ours() -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield name, labels and value of each of our samples."""
    content, _ = exposition()
    for family in text_string_to_metric_families(content.decode()):
        for sample in family.samples:
            if sample.name.startswith(("flyball_", "gen_ai_", "mcp_")):
                yield sample.name, sample.labels, sample.value


def value_of(name: str, **labels: str) -> float:
    return sum(
        value
        for found, having, value in ours()
        if found == name and labels.items() <= having.items()
    )


def test_a_breaker_is_shown_where_it_stands_and_its_changes_are_counted() -> None:
    breaker = UpstreamBreaker("telemetry-breaker", BreakerTerms(calls_min=1), clock=FakeClock())
    permit = breaker.let_through()
    assert isinstance(permit, Permit)
    closed = value_of("flyball_breaker", backend="telemetry-breaker")

    breaker.ended(permit, Sign.ILL)

    assert (closed, value_of("flyball_breaker", backend="telemetry-breaker")) == (0, 2)
    labels = {"backend": "telemetry-breaker", "state": "open"}
    assert value_of("flyball_breaker_changes_total", **labels) == 1


def test_fallbacks_are_counted_and_a_providers_keys_are_shown_by_state() -> None:
    backend = {"backend": "telemetry-provider"}

    telemetry.count_fallback(provider="telemetry-provider", reason="overloaded")
    telemetry.show_keys(provider="telemetry-provider", state="resting", count=2)
    telemetry.show_keys(provider="telemetry-provider", state="resting", count=1)

    assert value_of("flyball_fallbacks_total", **backend, reason="overloaded") == 1
    assert value_of("flyball_provider_keys", **backend, state="resting") == 1


def test_an_ended_call_is_counted_and_timed() -> None:
    labels = {"kind": "tool", "backend": "telemetry-ended"}

    for wall_ms in (7, 5):
        telemetry.count_ended(**labels, status=CallStatus.OK, wall_ms=wall_ms)

    assert value_of("flyball_calls_total", **labels, status="ok") == 2
    assert value_of("flyball_call_duration_milliseconds_sum", **labels) == 12
    assert value_of("flyball_call_duration_milliseconds_count", **labels) == 2


def test_a_denial_and_an_absorbed_failure_are_counted() -> None:
    denied = {"kind": "model", "reason": DenialReason.BUDGET_EXHAUSTED.value}
    denials = value_of("flyball_denials_total", **denied)
    failures = value_of("flyball_posture_failures_total", where="telemetry-test")

    telemetry.count_denied(kind=CallKind.MODEL.value, reason=DenialReason.BUDGET_EXHAUSTED)
    telemetry.count_failure("telemetry-test")

    assert value_of("flyball_denials_total", **denied) == denials + 1
    assert value_of("flyball_posture_failures_total", where="telemetry-test") == failures + 1


def test_a_queue_its_waits_its_limit_and_its_refusals_are_shown() -> None:
    backend = {"backend": "telemetry-queue"}

    telemetry.count_waiting(**backend, change=1)
    telemetry.count_waiting(**backend, change=1)
    telemetry.count_waiting(**backend, change=-1)
    telemetry.note_wait(**backend, wait_ms=40)
    telemetry.show_limit(**backend, limit=64)
    telemetry.show_limit(**backend, limit=57)
    telemetry.count_shed(**backend, reason="waited")

    assert value_of("flyball_waiting", **backend) == 1
    assert value_of("flyball_wait_milliseconds_sum", **backend) == 40
    assert value_of("flyball_concurrency_limit", **backend) == 57
    assert value_of("flyball_sheds_total", **backend, reason="waited") == 1


def test_choices_of_tiers_and_what_they_were_worth_are_counted_in_few_labels() -> None:
    choice = {"tier": "telemetry-low", "policy": "learned", "explored": "true"}

    telemetry.note_choice(tier="telemetry-low", policy="learned", explored=True, model="abc")
    telemetry.count_shadow(is_agreed=False)
    telemetry.count_router_outcome(source="tests", outcome="unknown")
    telemetry.count_drift("telemetry-low")
    capped = value_of("flyball_router_capped_total")
    telemetry.count_capped(3)

    assert value_of("flyball_router_choices_total", **choice) == 1
    assert value_of("flyball_router_shadow_total", outcome="differed") >= 1
    assert value_of("flyball_router_outcomes_total", source="tests", outcome="unknown") >= 1
    assert value_of("flyball_router_drifts_total", tier="telemetry-low") == 1
    assert value_of("flyball_router_capped_total") == capped + 3


def test_our_metrics_have_no_label_that_a_client_chooses() -> None:
    telemetry.count_ended(kind="tool", backend="x", status=CallStatus.OK, wall_ms=1)

    labels = {
        label for _, having, _ in ours() for label in having if not label.startswith(OF_THE_LIBRARY)
    }

    assert labels <= LABELS
    assert {"kind", "backend", "status"} <= labels


def test_collecting_twice_counts_once_and_replaces_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    collect_metrics(version=VERSION)

    telemetry.count_ended(kind="tool", backend="telemetry-twice", status=CallStatus.OK, wall_ms=1)

    assert value_of("flyball_calls_total", backend="telemetry-twice") == 1
    # OpenTelemetry refuses a second provider in the log, and nowhere else.
    assert caplog.records == []


def test_the_exposition_says_that_it_is_prometheus_text() -> None:
    _, media_type = exposition()

    assert media_type.startswith("text/plain; version=")


@pytest.mark.anyio
async def test_a_call_through_the_front_is_counted_on_the_administrators_listener(
    tmp_path: Path,
) -> None:
    anywhere = Listen(agents="127.0.0.1:0", admin="127.0.0.1:0")
    denied = {"kind": "tool", "reason": DenialReason.POLICY_DENIED.value}
    before = value_of("flyball_denials_total", **denied)

    async with serving(Config(listen=anywhere), state_dir=tmp_path) as (sidecar, listeners):
        secret = await anyio.Path(sidecar.tokens.agent).read_text(encoding="utf-8")
        headers = {"Authorization": f"Bearer {secret.strip()}"}
        with anyio.fail_after(60):
            async with (
                httpx2.AsyncClient(headers=headers, trust_env=False, timeout=60) as http,
                Client(
                    streamable_http_client(f"{listeners.agents_url}/mcp", http_client=http),
                    cache=None,
                ) as client,
            ):
                await client.call_tool("shell_run", {"command": "true"})
            async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
                answer = await http.get(f"{listeners.admin_url}/metrics")

    assert answer.status_code == 200
    counted = [line for line in answer.text.splitlines() if line.startswith("flyball_denials")]
    assert any('reason="policy_denied"' in line for line in counted)
    assert value_of("flyball_denials_total", **denied) == before + 1
