"""Declarations of what a call needs, as they are read: in order, or refused with the reason."""

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.fairness.claim import Priority
from governor.intents import NO_INTENT, Intent, Size
from tool_gateway.declared import RESOURCES_SCHEMA, intent_in_arguments, intent_in_meta
from tool_gateway.errors import InvalidContextError

MIB = 1024 * 1024
META = "flyball/resources"
VARIABLE = "FLYBALL_RESOURCES"


@pytest.mark.parametrize(
    ("value", "intent"),
    [
        ("low", Intent(size=Size.LOW)),
        ({"size": "high"}, Intent(size=Size.HIGH)),
        ({"memory_mib": 64}, Intent(memory_bytes=64 * MIB)),
        ({"memory_mib": 64.0}, Intent(memory_bytes=64 * MIB)),
        ({"cpus": 0.5, "duration_ms": 10}, Intent(cpu_millis=500, duration_ms=10)),
        ({"priority": "high"}, Intent(priority=Priority.HIGH)),
        ({}, NO_INTENT),
    ],
)
def test_words_and_figures_are_read(value: object, intent: Intent) -> None:
    assert intent_in_meta({META: value}) == intent
    jsonschema.validate(value, dict(RESOURCES_SCHEMA))


@pytest.mark.requirement("intent.never-above-the-ceiling")
@pytest.mark.parametrize(
    "value",
    [
        *("huge", "", 1, True, [], ["low"]),
        *({"memory_mib": 0}, {"memory_mib": -1}, {"memory_mib": 1.5}, {"memory_mib": "64"}),
        *({"memory_mib": True}, {"memory_mib": 2**60}, {"memory_mib": float("inf")}),
        *({"cpus": 0}, {"cpus": True}, {"cpus": "2"}, {"cpus": 1e9}),
        *({"duration_ms": 0}, {"duration_ms": 2**63}),
        *({"priority": "urgent"}, {"priority": ["low"]}, {"size": None, "memory": 1}),
    ],
)
def test_what_is_no_declaration_is_refused_with_the_reason(value: object) -> None:
    with pytest.raises(InvalidContextError) as refused:
        intent_in_meta({META: value})

    assert META in str(refused.value)
    assert len(str(refused.value)) < 300
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(value, dict(RESOURCES_SCHEMA))


@pytest.mark.parametrize(
    ("text", "intent"),
    [
        ("high", Intent(size=Size.HIGH)),
        (" low ", Intent(size=Size.LOW)),
        ("memory_mib=512,cpus=1.5", Intent(memory_bytes=512 * MIB, cpu_millis=1_500)),
        ("duration_ms = 10 , priority = low", Intent(duration_ms=10, priority=Priority.LOW)),
        ('{"memory_mib": 8}', Intent(memory_bytes=8 * MIB)),
    ],
)
def test_a_variable_says_the_same_in_a_line(text: str, intent: Intent) -> None:
    assert intent_in_arguments({"argv": ["x"], "env": {VARIABLE: text}}) == intent
    assert intent_in_arguments({"command": f"{VARIABLE}='{text}' make"}) == intent


@pytest.mark.parametrize(
    "text",
    [
        "",
        "512m",
        "memory=1",
        "memory_mib=",
        "memory_mib=1,memory_mib=2",
        "cpus=nan",
        "{",
        "{}x",
        "[" * 2_000,
        "cpus=" + "9" * 2_000,
    ],
)
def test_a_variable_that_says_nothing_readable_is_refused(text: str) -> None:
    with pytest.raises(InvalidContextError):
        intent_in_arguments({"command": "true", "env": {VARIABLE: text}})


@pytest.mark.parametrize(
    "line",
    [
        f"echo {VARIABLE}=high",
        f"make && {VARIABLE}=high make",
        f"X{VARIABLE}=high make",
        f"echo '{VARIABLE}=high'",
        "make",
    ],
)
def test_only_a_variable_before_the_first_command_is_a_declaration(line: str) -> None:
    assert intent_in_arguments({"command": line}) == NO_INTENT


def test_the_most_deliberate_place_counts_and_the_others_add_to_it() -> None:
    arguments = {
        "command": f"{VARIABLE}=cpus=3,priority=low make",
        "env": {VARIABLE: "cpus=2,duration_ms=5"},
        "resources": {"cpus": 1},
    }

    found = intent_in_arguments(arguments)

    assert found == Intent(cpu_millis=1_000, duration_ms=5, priority=Priority.LOW)


@given(st.text(max_size=200))
def test_no_text_does_more_than_be_refused(text: str) -> None:
    for arguments in ({"env": {VARIABLE: text}}, {"command": f"{VARIABLE}={text}"}):
        try:
            found = intent_in_arguments(arguments)
        except InvalidContextError:
            continue
        assert isinstance(found, Intent)
