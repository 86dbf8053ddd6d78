"""What an upstream answered, before anybody reads it: held to its promise, bounded, redacted."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.call import CallStatus, Idempotency
from governor.content import ContentTerms, OutputSchema
from governor.ids import CallId
from governor.loops import LoopRule
from tests.governor.makers import budget
from tests.tool_gateway.credential_samples import AWS_KEY as KEY
from tests.tool_gateway.credential_samples import JWT, PEM, SAMPLES
from tests.tool_gateway.makers import ENTRY, RULE, House, a_call
from tool_gateway.credentials import BUILT_IN, Detector, PatternError, built_in, detector
from tool_gateway.errors import UpstreamDownError, UpstreamSaidError
from tool_gateway.guards.secrets import Redaction
from tool_gateway.results import (
    ARCHIVE_META,
    REDACTED_META,
    SCHEMA_META,
    Outcome,
    ToolResult,
    text_block,
    text_result,
)

pytestmark = pytest.mark.anyio
READS = {"annotations": {"readOnlyHint": True}}
PROMISED = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "note": {"type": "string"}},
    "required": ["n"],
}
GOOD = ToolResult(content=(text_block("fine"),), structured={"n": 1})
BROKEN = ToolResult(content=(text_block("oh"),), structured={"n": "x", "note": "AKIA" + "A" * 16})


def house(
    result: ToolResult,
    *,
    schema: Mapping[str, object] | None = PROMISED,
    detectors: dict[str, Detector] | None = None,
    **content: Any,
) -> House:
    async def answer() -> Outcome:
        return Outcome(result=result)

    rule = replace(RULE, content=ContentTerms(**content))
    made = House(budget("calls", tool_calls=10), rule=rule, behave=answer, detectors=detectors)
    if schema is not None:
        made.entry = replace(ENTRY, definition={**ENTRY.definition, "outputSchema": schema})
    return made


@pytest.mark.requirement("content.promises-are-kept")
@pytest.mark.parametrize(
    ("answered", "says"),
    [
        (BROKEN, "structuredContent['n']: 'x' is not of type 'integer'"),
        (text_result("no structure"), "structuredContent: it is required, and there is none"),
    ],
)
async def test_a_result_against_its_schema_is_an_error_that_says_where_and_is_charged(
    answered: ToolResult, says: str
) -> None:
    made = house(answered)

    result = await made.run()

    assert result.is_error
    assert "files broke its promise" in (result.content[0]["text"])
    assert says in str(result.content[0]["text"])
    assert result.structured is None
    assert result.meta[SCHEMA_META] == {"broken": says}
    assert made.record.status is CallStatus.UPSTREAM_FAILED
    assert says in made.record.detail
    assert made.ledger.remaining() == 9


@pytest.mark.requirement("content.promises-are-kept")
async def test_what_broke_a_promise_is_kept_whole_and_without_secrets() -> None:
    made = house(BROKEN, redact=("cloud_keys",))

    result = await made.run()

    ((_, kept),) = made.archive.kept.values()
    assert json.loads(kept)["structuredContent"] == {"n": "x", "note": "[redacted:cloud_keys]"}
    assert result.meta[ARCHIVE_META]["archive_id"] == made.record.archive_id == "arc_1"
    assert 'memory_read {"index": "arc_1"}' in str(result.content[0]["text"])


@pytest.mark.requirement("redaction.results")
@pytest.mark.parametrize("before", ["x" * 103 + " ", "x\n"])
async def test_the_words_about_a_broken_promise_hold_no_piece_of_a_secret(before: str) -> None:
    answered = ToolResult(content=(), structured={"n": f"{before}{KEY}"})

    result = await house(answered, redact=("cloud_keys",)).run()

    assert "structuredContent['n']: 'x" in str(result.content[0]["text"])
    assert "AKIA" not in str(result)


@pytest.mark.requirement("redaction.results")
async def test_a_promise_that_only_the_secret_broke_is_broken_and_says_no_more() -> None:
    answered = ToolResult(content=(), structured={"n": KEY})
    schema = {"type": "object", "properties": {"n": {"pattern": "redacted"}}}

    result = await house(answered, schema=schema, redact=("cloud_keys",)).run()

    assert result.is_error
    assert "does not fit where a secret was taken out" in str(result.content)
    assert "AKIA" not in str(result)


async def test_an_archive_that_is_down_hides_no_broken_promise() -> None:
    made = house(BROKEN)
    made.archive.is_down = True

    result = await made.run()

    assert result.is_error
    assert ARCHIVE_META not in result.meta


@pytest.mark.requirement("content.promises-are-kept")
async def test_by_policy_a_broken_promise_is_only_told_or_not_looked_at() -> None:
    reported = await house(BROKEN, output_schema=OutputSchema.REPORT).run()
    ignored = await house(BROKEN, output_schema=OutputSchema.OFF).run()

    assert not reported.is_error
    assert "'x' is not of type 'integer'" in reported.meta[SCHEMA_META]["reported"]
    assert (reported.structured, ignored.structured) == (BROKEN.structured, BROKEN.structured)
    assert SCHEMA_META not in ignored.meta


@pytest.mark.parametrize(
    "answered",
    [
        GOOD,
        text_result("failed", is_error=True),
        ToolResult(content=(), extra={"resultType": "input_required"}),
    ],
)
async def test_what_keeps_its_promise_or_made_none_is_left_as_it_is(answered: ToolResult) -> None:
    result = await house(answered).run()

    assert result.content == answered.content
    assert SCHEMA_META not in result.meta


@pytest.mark.requirement("input.hostile-schema")
async def test_a_result_that_takes_too_long_to_check_is_shown_and_says_so() -> None:
    doubling = {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}
    schema = {**doubling, "$defs": {"a": {"properties": {"x": doubling}}}}
    deep: object = 1
    for _ in range(30):
        deep = {"x": deep}

    result = await house(ToolResult(content=(), structured=deep), schema=schema).run()

    assert not result.is_error
    assert "takes too long" in result.meta[SCHEMA_META]["unchecked"]


@pytest.mark.requirement("content.sizes-are-bounded")
async def test_a_result_above_its_bound_is_not_shown_nor_kept_and_is_charged() -> None:
    made = house(text_result("x" * 2_000), schema=None, result_bytes_max=1_000)

    result = await made.run()

    assert result.is_error
    assert "2000 bytes, and at most 1000" in (result.sole_text or "")
    assert made.record.status is CallStatus.LIMIT_HIT
    assert made.archive.kept == {}
    assert made.ledger.remaining() == 9


@pytest.mark.requirement("redaction.results")
async def test_secrets_are_taken_out_of_every_part_of_a_result_and_counted() -> None:
    answered = ToolResult(
        content=(
            text_block(f"key {KEY} and {KEY}"),
            {"type": "resource", "resource": {"uri": "u", "text": PEM}},
            {"type": "image", "mimeType": "image/png", "data": KEY},
        ),
        structured={"tokens": [f"Bearer {JWT}"], KEY: 1},
        meta={"other/key": JWT},
    )
    made = house(
        answered, schema=None, redact=("cloud_keys", "private_keys", "bearer_tokens", "jwts")
    )

    result = await made.run()

    assert result.meta[REDACTED_META] == {
        "cloud_keys": 3,
        "private_keys": 1,
        "bearer_tokens": 1,
        "jwts": 1,
    }
    assert result.content[0]["text"] == "key [redacted:cloud_keys] and [redacted:cloud_keys]"
    assert result.content[1]["resource"]["text"] == "[redacted:private_keys]"
    assert result.content[2]["data"] == KEY
    assert result.structured == {
        "tokens": ["[redacted:bearer_tokens]"],
        "[redacted:cloud_keys]": 1,
    }
    assert result.meta["other/key"] == "[redacted:jwts]"


@pytest.mark.requirement("redaction.results")
@pytest.mark.parametrize(
    "structured",
    [
        {"uri": "/v1/x", "data": {"secret": KEY}},
        {"uri": "/v1/x", "data": KEY},
        {"mimeType": "text/plain", "blob": f"key {KEY}"},
        {"contents": [{"uri": "u", "blob": KEY}]},
        {"requestState": KEY},
    ],
)
async def test_a_tools_own_structure_has_no_place_for_bytes_or_state(structured: Any) -> None:
    answered = ToolResult(content=(), structured=structured, meta={"other/key": structured})

    result = await house(answered, schema=None, redact=("cloud_keys",)).run()

    assert KEY not in str(result)


@pytest.mark.requirement("redaction.results")
@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": "x", "uri": "u", "data": KEY},
        {"type": "image", "mimeType": "text/plain", "data": f"key {KEY}"},
        {"type": "image", "mimeType": "image/png", "data": {"key": KEY}},
        {"type": "resource", "resource": {"uri": "u", "blob": [KEY]}},
        {"type": "resource", "resource": {"uri": "u", "data": KEY}},
    ],
)
async def test_only_base64_where_the_protocol_has_it_goes_unsearched(block: Any) -> None:
    result = await house(ToolResult(content=(block,)), schema=None, redact=("cloud_keys",)).run()

    assert KEY not in str(result.content)


async def test_a_file_in_a_result_stays_as_it_is() -> None:
    block = {"type": "resource", "resource": {"uri": "u", "blob": KEY}, "annotations": {"k": KEY}}

    result = await house(ToolResult(content=(block,)), schema=None, redact=("cloud_keys",)).run()

    assert result.content[0]["resource"] == block["resource"]
    assert result.content[0]["annotations"] == {"k": "[redacted:cloud_keys]"}


@pytest.mark.requirement("redaction.results")
async def test_what_a_client_sends_back_as_it_came_is_left_alone_and_what_it_shows_is_not() -> None:
    related = "io.modelcontextprotocol/related-task"
    ask = {"method": "elicitation/create", "params": {"message": f"is {JWT} yours?"}}
    answered = ToolResult(
        content=(),
        meta={related: {"taskId": JWT}},
        extra={
            "resultType": "input_required",
            "requestState": JWT,
            "taskId": JWT,
            "task": {"taskId": JWT, "statusMessage": JWT},
            "inputRequests": {JWT: ask},
        },
    )

    result = await house(answered, schema=None, redact=("jwts",)).run()

    asked: Any = result.extra["inputRequests"]
    assert result.extra["requestState"] == result.extra["taskId"] == JWT
    assert result.extra["task"] == {"taskId": JWT, "statusMessage": "[redacted:jwts]"}
    assert asked[JWT]["params"] == {"message": "is [redacted:jwts] yours?"}
    assert result.meta[related] == {"taskId": JWT}


@pytest.mark.requirement("redaction.results")
async def test_an_answer_that_is_given_again_keeps_to_the_rule_of_whoever_gets_it() -> None:
    made = house(text_result(f"{KEY} {'x' * 2_000}"), schema=None)
    made.entry = replace(ENTRY, definition={**ENTRY.definition, **READS})
    lax = replace(RULE, loops=LoopRule(remind=0, serve=2))
    strict = {
        "redacted": ContentTerms(redact=("cloud_keys",)),
        "bounded": ContentTerms(result_bytes_max=1_000),
    }

    made.policy = replace(made.policy, rules=(lax,))
    whole = await made.run()
    again = {}
    for name, content in strict.items():
        made.policy = replace(made.policy, rules=(replace(lax, content=content),))
        again[name] = await made.run()

    assert len(made.backend.ran) == 1
    assert KEY in str(whole.content)
    assert KEY not in str(again["redacted"].content)
    assert again["redacted"].meta[REDACTED_META] == {"cloud_keys": 1}
    assert again["bounded"].is_error
    assert "at most 1000" in str(again["bounded"].content)
    assert "Nothing was charged" in str(again["bounded"].content)
    assert [one.status for one in made.ledger.records] == [
        CallStatus.OK, CallStatus.OK, CallStatus.LIMIT_HIT,
    ]  # fmt: skip
    assert made.ledger.remaining() == 9


@pytest.mark.requirement("redaction.results")
async def test_a_retry_is_given_the_outcome_as_the_rule_has_it_now() -> None:
    made = house(text_result(f"key {KEY}"), schema=None)
    call = replace(a_call("call_1"), idempotency=Idempotency(key="k", payload_hash="h"))
    await made.run(call)
    redacting = replace(RULE, content=ContentTerms(redact=("cloud_keys",)))
    made.policy = replace(made.policy, rules=(redacting,))

    again = await made.run(replace(call, call_id=CallId("call_2")))

    assert again.sole_text == "key [redacted:cloud_keys]"


@pytest.mark.requirement("redaction.results")
async def test_a_large_result_is_archived_without_its_secrets() -> None:
    made = house(text_result(f"{KEY} " + "x" * 20_000), schema=None, redact=("cloud_keys",))

    await made.run()

    ((_, kept),) = made.archive.kept.values()
    assert kept.startswith(b"[redacted:cloud_keys] xxx")


@pytest.mark.requirement("redaction.results")
async def test_an_upstreams_error_is_redacted_for_the_client_and_the_record() -> None:
    async def refuse() -> Outcome:
        raise UpstreamSaidError(f"no: {KEY}", code=-1, words=f"no: {KEY}", data={"key": KEY})

    made = house(GOOD, redact=("cloud_keys",))
    made.backend.behave = refuse

    result = await made.run()

    assert KEY not in str(result)
    assert KEY not in made.record.detail
    assert result.fault is not None
    assert result.fault.data == {"key": "[redacted:cloud_keys]"}


@pytest.mark.requirement("redaction.results")
async def test_what_a_server_wrote_before_it_ended_is_redacted_too() -> None:
    async def be_down() -> Outcome:
        raise UpstreamDownError(f"files is down; it wrote: cannot log in with {KEY}")

    made = house(GOOD, redact=("cloud_keys",))
    made.backend.behave = be_down

    result = await made.run()

    assert "cannot log in with [redacted:cloud_keys]" in (result.sole_text or "")
    assert result.meta[REDACTED_META] == {"cloud_keys": 1}
    assert KEY not in made.record.detail


async def test_without_a_word_from_the_operator_results_are_as_they_are() -> None:
    result = await house(text_result(KEY), schema=None).run()

    assert result.content[0]["text"] == KEY
    assert REDACTED_META not in result.meta


@pytest.mark.requirement("redaction.results")
def test_a_detector_of_the_operators_own_is_linear_in_the_text() -> None:
    own = detector("own", "(a+)+b|x{1,50}y")

    text, found = "a" * 200_000, Redaction([own])

    assert found.of_text(text) == text
    assert found.of_text("aab") == "[redacted:own]"


@pytest.mark.parametrize(
    "pattern", ["(", r"(?=a)b", r"(a)\1", "a*", "(a{1000}){1000}", "x" * 1_001]
)
def test_a_pattern_that_is_none_or_too_much_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        detector("own", pattern)


def test_half_a_surrogate_pair_hides_no_secret() -> None:
    redaction = Redaction(list(built_in().values()))
    block = {"type": "audio", "data": f"\ud800 {KEY}"}

    assert KEY not in redaction.of_text(f"\ud800 {KEY}")
    assert KEY not in str(redaction.of_result(ToolResult(content=(block,))).content)


@given(before=st.text(), after=st.text(alphabet=" \n,.;"))
def test_a_secret_is_found_wherever_it_stands(before: str, after: str) -> None:
    redaction = Redaction([built_in()["private_keys"]])

    assert "MIIE" not in redaction.of_text(f"{before}{PEM}{after}")


@pytest.mark.parametrize(("kind", "text", "secret"), SAMPLES)
def test_every_built_in_detector_finds_its_own(kind: str, text: str, secret: str) -> None:
    redaction = Redaction([built_in()[kind]])

    clean = redaction.of_text(text)

    assert secret not in clean
    assert redaction.found == {kind: 1}


def test_there_is_a_sample_of_every_kind() -> None:
    assert {kind for kind, _, _ in SAMPLES} == BUILT_IN
