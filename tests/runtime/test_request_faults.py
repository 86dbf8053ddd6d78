"""A request's faults are told by field, in plain words and without values."""

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from governor.amounts import Unit
from runtime.request_faults import FAULTS_MAX, faulty_body


class Carve(BaseModel):
    """A body as the agents' listener takes it."""

    model_config = ConfigDict(extra="forbid")

    parent: str
    limits: dict[Unit, int]


def faults_of(body: str) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as caught:
        Carve.model_validate_json(body)
    return [(fault.field, fault.detail) for fault in faulty_body(caught.value, Carve).faults]


def test_a_wrong_key_is_named_by_its_place_alone() -> None:
    ((field, detail),) = faults_of('{"parent": "a", "limits": {"toolcalls": 1}}')

    assert field == "limits.toolcalls"
    assert "'tool_calls'" in detail


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('{"parent": "a", "limits": []}', ("limits", "should be an object")),
        ('{"limits": {}}', ("parent", "is required")),
        ("7", ("body", "should be an object")),
        (
            '{"parent": "a", "limits": {}, "limit": 1}',
            ("limit", "there is no such field; did you mean 'limits'?"),
        ),
    ],
)
def test_a_fault_is_told_in_plain_words(body: str, fault: tuple[str, str]) -> None:
    assert faults_of(body) == [fault]


def test_a_body_that_is_wrong_everywhere_gets_a_short_answer() -> None:
    units = ", ".join(f'"u{number}": 1' for number in range(FAULTS_MAX + 5))

    assert len(faults_of(f'{{"parent": "a", "limits": {{{units}}}}}')) == FAULTS_MAX
