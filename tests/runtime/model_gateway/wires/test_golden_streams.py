"""What the wires hear in streams of recorded shape, whole and cut at every byte."""

import pytest

from runtime.model_gateway.counting.output import tokens_floor
from runtime.model_gateway.measured import Measured, UsageSource
from runtime.model_gateway.metering import heard_of
from runtime.model_gateway.streams.events import EventCutter
from tests.model_upstream.golden import Golden, Truth
from tests.runtime.model_gateway.wires.makers import (
    GOLDENS,
    WIRES,
    a_tier,
    named,
    payload_of,
)

every_golden = pytest.mark.parametrize("golden", GOLDENS, ids=named)


def truth_of(measured: Measured) -> Truth:
    assert measured.source is UsageSource.PROVIDER
    return Truth(
        input_tokens=measured.input_tokens,
        output_tokens=measured.output_tokens,
        cached_tokens=measured.cached_tokens,
        cache_write_tokens=measured.cache_write_tokens,
    )


@pytest.mark.requirement("wire.golden-streams")
@every_golden
def test_a_whole_stream_is_metered_exactly_and_every_event_is_relayed(golden: Golden) -> None:
    meter = WIRES[golden.wire].meter(payload_of(golden), keeps_text=True)

    relayed = [event for event in golden.events if meter.hear(event)]

    assert relayed == list(golden.events)
    assert (meter.is_finished, meter.is_whole, meter.fault) == (True, True, "")
    if golden.reports:
        found = heard_of(meter, payload_of(golden), a_tier(), why="")
        assert isinstance(found, Measured)
        assert truth_of(found) == golden.truth
    else:
        assert meter.reported is None


@every_golden
def test_the_text_of_a_stream_is_kept_for_a_tokenizer_as_it_was_written(golden: Golden) -> None:
    meter = WIRES[golden.wire].meter(payload_of(golden), keeps_text=True)
    for event in golden.events:
        meter.hear(event)

    assert meter.produced.pieces is not None
    texts = ["".join(pieces) for pieces in meter.produced.pieces.values()]

    assert golden.text == "" or golden.text in texts
    assert sum(len(text.encode()) for text in texts) == meter.produced.text_bytes


@pytest.mark.requirement("wire.golden-streams")
@every_golden
def test_a_stream_cut_at_any_byte_is_heard_up_to_its_last_whole_event(golden: Golden) -> None:
    wire, payload, content = WIRES[golden.wire], payload_of(golden), golden.content
    cutter, heard, events = EventCutter(), wire.meter(payload), []
    for place in range(len(content)):
        for event in cutter.cut(content[place : place + 1]):
            heard.hear(event)
            events.append(event)
        left = wire.meter(payload)
        for event in (*events, cutter.rest):
            left.hear(event)

        assert b"".join((*events, cutter.rest)) == content[: place + 1]
        assert events == list(golden.events[: len(events)])
        # A piece of an event is not believed, whatever it begins with.
        assert left.reported == heard.reported or cutter.rest.rstrip().endswith(b"}")
        assert isinstance(left.cut(None), bytes)


@every_golden
def test_at_no_event_more_is_provably_written_than_is_true(golden: Golden) -> None:
    meter = WIRES[golden.wire].meter(payload_of(golden))
    for event, written in zip(golden.events, golden.written, strict=True):
        meter.hear(event)

        assert tokens_floor(meter.produced) <= max(written, 0)


@pytest.mark.requirement("wire.golden-streams")
@every_golden
def test_a_stream_that_ends_at_any_event_is_never_charged_below_what_is_true(
    golden: Golden,
) -> None:
    payload, tier = payload_of(golden), a_tier()
    meter = WIRES[golden.wire].meter(payload)
    for event, written in zip(golden.events, golden.written, strict=True):
        meter.hear(event)
        tokens = heard_of(meter, payload, tier, why="it broke off")

        # What nobody measured is charged as it was held.
        if isinstance(tokens, Measured):
            assert tokens.input_tokens >= golden.truth.input_tokens
            assert tokens.output_tokens >= written


@every_golden
def test_what_is_reported_along_the_way_is_never_above_what_is_true(golden: Golden) -> None:
    meter = WIRES[golden.wire].meter(payload_of(golden))
    for event, written in zip(golden.events, golden.written, strict=True):
        meter.hear(event)
        reported = meter.reported

        if reported is not None:
            assert reported.input_tokens == golden.truth.input_tokens
            assert (reported.output_tokens or 0) <= max(written, 1)


@pytest.mark.parametrize(
    "event",
    [
        b"data: {\n\n",
        b"data: []\n\n",
        b"data: \xff\xfe\n\n",
        b"event: x\ndata: 12\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
        b'data: {"type":"message_delta","usage":\n\n',
    ],
)
@pytest.mark.parametrize("name", ["openai_chat", "anthropic_messages", "openai_responses"])
def test_an_event_that_is_no_object_is_a_fault_and_not_relayed(name: str, event: bytes) -> None:
    golden = next(one for one in GOLDENS if one.wire == name)
    meter = WIRES[name].meter(payload_of(golden))

    is_relayed = meter.hear(event)

    assert not is_relayed
    assert meter.fault


@pytest.mark.parametrize(
    "event", [b": keep-alive\n\n", b"\n\n", b"event: ping\n\n", b"id: 7\r\n\r\n"]
)
@pytest.mark.parametrize("name", ["openai_chat", "anthropic_messages", "openai_responses"])
def test_comments_and_empty_events_are_relayed_and_mean_nothing(name: str, event: bytes) -> None:
    golden = next(one for one in GOLDENS if one.wire == name)
    meter = WIRES[name].meter(payload_of(golden))

    assert meter.hear(event)
    assert (meter.fault, meter.is_finished, meter.produced.text_bytes) == ("", False, 0)
