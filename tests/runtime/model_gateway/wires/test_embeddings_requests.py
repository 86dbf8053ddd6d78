"""What of a request for embeddings is read, bounded and sent on."""

import json

import pytest

from runtime.model_gateway.counting.belief import believed
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.measured import Measured, UsageSource
from tests.model_upstream.embeddings_goldens import embeddings
from tests.runtime.model_gateway.wires.makers import WIRES, a_tier, parsed, sent

WIRE = WIRES["openai_embeddings"]


@pytest.mark.parametrize("value", ["Grüße", ["a", "b"], [1, 2, 3], [[1, 2], [3]], ["a", [1, 2]]])
def test_texts_and_tokens_are_sent_on_and_bounded_by_their_bytes(value: object) -> None:
    fields = {"model": "low", "input": value, "encoding_format": "base64", "dimensions": 8}

    payload = WIRE.payload(parsed(WIRE, fields), a_tier(), note="Be quick.")

    assert sent(payload) == {**fields, "model": "model-of-the-tier"}
    assert payload.input_tokens_max >= len(payload.content)
    assert payload.output_tokens_max == 0


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": {"image": "https://x/y.png"}}, "input"),
        ({"input": [{"image": "https://x/y.png"}]}, "input.0"),
        ({"input": ["a", [1, "b"]]}, "input.1"),
        ({"input": [-1]}, "input.0"),
        ({"input": "a", "stream": True}, "stream"),
        ({"input": "a", "model": None}, "model"),
    ],
)
def test_a_field_that_cannot_be_read_is_named(fields: dict[str, object], param: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parsed(WIRE, {"model": "low", **fields})

    assert caught.value.param == param


def test_an_answer_is_metered_by_its_prompt_tokens() -> None:
    payload = WIRE.payload(parsed(WIRE, {"model": "low", "input": "hello"}), a_tier())

    served = WIRE.served(json.dumps(embeddings([0.5], input_tokens=2)).encode(), payload)

    found = believed(served.reported, served.produced, payload, a_tier())
    assert (found, served.fault) == (Measured(input_tokens=2, output_tokens=0), "")


@pytest.mark.parametrize(
    "usage", [None, {}, {"prompt_tokens": 0}, {"prompt_tokens": 10**9}, {"prompt_tokens": "2"}]
)
def test_a_usage_that_cannot_be_true_is_not_believed(usage: object) -> None:
    payload = WIRE.payload(parsed(WIRE, {"model": "low", "input": "hello"}), a_tier())
    answer = {**embeddings([0.5]), "usage": usage}

    served = WIRE.served(json.dumps(answer).encode(), payload)

    found = believed(served.reported, served.produced, payload, a_tier())
    assert isinstance(found, Measured)
    assert (found.input_tokens, found.source) == (payload.input_tokens_max, UsageSource.BOUND)
    assert served.fault == ""


@pytest.mark.parametrize("content", [b"", b"[]", b'{"error":{}}', b'{"data":{}}'])
def test_an_answer_without_embeddings_is_a_fault(content: bytes) -> None:
    payload = WIRE.payload(parsed(WIRE, {"model": "low", "input": "hello"}), a_tier())

    assert WIRE.served(content, payload).fault
