"""Recorded streams, cut after every byte: no drift where usage is reported, else a bound."""

import pytest

from governor.tiers import ModelTier
from runtime.model_gateway.counting.belief import believed
from runtime.model_gateway.measured import Measured, UsageSource
from runtime.model_gateway.streams.events import EventCutter
from tests.model_upstream.golden import Golden, compact
from tests.runtime.model_gateway.bench import tier
from tests.runtime.model_gateway.wires.makers import GOLDENS, WIRES, named

PLAIN = tier(output_tokens_max=4_096)


def settled_at(golden: Golden, place: int, *, of: ModelTier = PLAIN) -> tuple[Measured, int, bool]:
    """Return what is settled, what was written by then, and whether the report has come."""
    wire = WIRES[golden.wire]
    payload = wire.payload(wire.parse(compact(golden.request), headers={}), of)
    meter = wire.meter(payload)
    heard = 0
    for event in EventCutter().cut(golden.content[:place]):
        meter.hear(event)
        heard += 1
    found = believed(
        meter.reported, meter.produced, payload, of, why="it was cut", is_whole=meter.is_whole
    )
    assert isinstance(found, Measured)
    is_reported = meter.is_whole and meter.reported is not None
    return found, golden.written[heard - 1] if heard else 0, is_reported


@pytest.mark.requirement("count.bound-never-below")
@pytest.mark.parametrize("golden", GOLDENS, ids=named)
def test_a_recorded_stream_is_never_settled_below_the_truth_wherever_it_is_cut(
    golden: Golden,
) -> None:
    for place in range(len(golden.content) + 1):
        found, written, is_reported = settled_at(golden, place)

        assert found.output_tokens >= written, place
        assert found.input_tokens >= golden.truth.input_tokens, place
        if is_reported:
            assert found.source is UsageSource.PROVIDER, place
            assert found.input_tokens == golden.truth.input_tokens
            assert found.output_tokens == golden.truth.output_tokens


@pytest.mark.parametrize("golden", GOLDENS, ids=named)
def test_a_whole_recorded_stream_has_no_drift_where_its_usage_is_reported(golden: Golden) -> None:
    found, _, _ = settled_at(golden, len(golden.content))

    if golden.reports:
        truth = golden.truth
        assert (found.input_tokens, found.output_tokens, found.cached_tokens) == (
            truth.input_tokens,
            truth.output_tokens,
            truth.cached_tokens,
        )
        assert found.doubt == ""
