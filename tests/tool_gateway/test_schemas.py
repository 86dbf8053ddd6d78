import socket
from pathlib import Path

import pytest

from governor.ids import ToolName, UpstreamName
from tool_gateway.catalog import Catalog, ToolEntry
from tool_gateway.schema_bounds import (
    DEPTH_MAX,
    NODES_MAX,
    PATTERN_CHARS_MAX,
    PATTERNS_MAX,
)
from tool_gateway.schemas import ToolSchemas
from tool_gateway.stock import Stock

TOOL = ToolName("up__tool")
SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "lines": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["path"],
    "additionalProperties": False,
}


def entry(schema: object, name: ToolName = TOOL) -> ToolEntry:
    return ToolEntry(
        exposed=name,
        original="tool",
        backend=UpstreamName("up"),
        definition={"name": "tool", "inputSchema": schema},
    )


def schemas(schema: object) -> ToolSchemas:
    return ToolSchemas(Catalog([entry(schema)]))


def test_good_arguments_have_no_problem() -> None:
    assert schemas(SCHEMA).problem_with(TOOL, {"path": "a", "lines": [1, 2]}) is None


@pytest.mark.requirement("input.wrong-types")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"path": 5}, "arguments['path']: 5 is not of type 'string'"),
        ({"path": "a", "lines": [1, "x"]}, "arguments['lines'][1]: 'x' is not of type 'integer'"),
        ({}, "arguments: 'path' is a required property"),
        ({"path": "a", "b": 1}, "arguments: Additional properties are not allowed"),
    ],
)
def test_a_problem_says_where_it_is_what_was_expected_and_what_came(
    arguments: dict[str, object], says: str
) -> None:
    problem = schemas(SCHEMA).problem_with(TOOL, arguments)

    assert problem is not None
    assert problem.startswith(says)


@pytest.mark.requirement("input.wrong-types")
def test_a_problem_with_a_huge_value_stays_short() -> None:
    problem = schemas(SCHEMA).problem_with(TOOL, {"path": ["x" * 100_000]})

    assert problem is not None
    assert "expected type: 'string'" in problem
    assert len(problem) < 400


@pytest.mark.requirement("input.hostile-schema")
@pytest.mark.parametrize(
    "schema",
    [
        {"type": 5},
        {"properties": {"a": {"pattern": "("}}},
        {"minimum": "x"},
        {"$ref": 5},
        {"$schema": 5},
        {"$schema": []},
    ],
)
def test_a_malformed_schema_is_named_and_checks_nothing(schema: object) -> None:
    compiled = schemas(schema)

    assert [fault.tool for fault in compiled.faults] == [TOOL]
    assert compiled.problem_with(TOOL, {"a": 1}) is None


@pytest.mark.requirement("input.hostile-schema")
@pytest.mark.parametrize(
    "schema", [{"$ref": "#/nowhere"}, {"$ref": "#"}, {"allOf": [{"$ref": "#"}]}]
)
def test_a_schema_that_leads_nowhere_is_a_problem_and_no_crash(schema: object) -> None:
    problem = schemas(schema).problem_with(TOOL, {"a": 1})

    assert problem is not None
    assert "the tool's own schema" in problem


@pytest.mark.requirement("input.hostile-schema")
def test_a_malformed_schema_does_not_keep_the_neighbours_tools_out() -> None:
    stock = Stock(())
    good = ToolName("good__tool")

    stock.replace([entry({"$schema": 5}), entry(SCHEMA, good)])

    assert stock.catalog.find(good).exposed == good


@pytest.mark.requirement("input.hostile-schema")
@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"enum": list(range(NODES_MAX))}, "parts"),
        ({"allOf": [{"pattern": "a"}] * (PATTERNS_MAX + 1)}, "patterns"),
        ({"pattern": "a" * (PATTERN_CHARS_MAX + 1)}, "characters"),
        ({"pattern": "(a{1000}){1000}"}, "no regular expression, or too large"),
        ({"patternProperties": {"(": {}}}, "no regular expression"),
    ],
)
def test_a_schema_that_asks_for_too_much_is_named_and_checks_nothing(
    schema: dict[str, object], why: str
) -> None:
    compiled = schemas(schema)

    assert why in compiled.faults[0].why
    assert compiled.problem_with(TOOL, {"a": 1}) is None


@pytest.mark.requirement("input.hostile-schema")
def test_a_schema_that_is_nested_too_deeply_is_named() -> None:
    schema: dict[str, object] = {}
    for _ in range(DEPTH_MAX):
        schema = {"not": schema}

    assert "deep" in schemas(schema).faults[0].why


@pytest.mark.requirement("input.hostile-schema")
@pytest.mark.timeout(100)
@pytest.mark.parametrize("lead", ["", "(?=a)"])
@pytest.mark.parametrize("has_reference", [True, False])
def test_no_pattern_takes_long_to_say_that_nothing_matches(
    lead: str, *, has_reference: bool
) -> None:
    properties: dict[str, object] = {"a": {"pattern": f"^{lead}(a+)+$"}}
    schema: dict[str, object] = {"properties": properties}
    if has_reference:
        properties["b"] = {"$ref": "#/$defs/c"}
        schema["$defs"] = {"c": {"patternProperties": {f"^{lead}(b+)+$": {}}}}

    problem = schemas(schema).problem_with(TOOL, {"a": "a" * 40 + "!", "b": {"b" * 40 + "!": 1}})

    assert problem is not None
    assert problem.startswith("arguments['a']")


@pytest.mark.requirement("input.hostile-schema")
@pytest.mark.timeout(100)
def test_references_that_double_at_each_step_are_given_up() -> None:
    doubling = {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}
    schema = {**doubling, "$defs": {"a": {"properties": {"x": doubling}}}}
    deep: dict[str, object] = {}
    for _ in range(30):
        deep = {"x": deep}

    problem = schemas(schema).problem_with(TOOL, deep)

    assert problem is not None
    assert "takes too long" in problem


@pytest.mark.requirement("input.hostile-schema")
@pytest.mark.timeout(100)
def test_items_that_should_be_unique_are_compared_in_one_pass() -> None:
    schema = {
        "properties": {"l": {"uniqueItems": True}, "r": {"$ref": "#/$defs/r"}},
        "$defs": {"r": {}},
    }
    many = [{"a": each} for each in range(20_000)]

    assert schemas(schema).problem_with(TOOL, {"l": many}) is None
    problem = schemas(schema).problem_with(TOOL, {"l": [*many, many[0]]})
    assert problem == "arguments['l']: the items are not unique"


@pytest.mark.requirement("nothing-leaves")
def test_a_schema_that_refers_to_another_host_is_never_fetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An upstream must not make the sidecar send requests for it."""
    visited = []

    def refuse(_: socket.socket, address: object) -> None:
        visited.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket.socket, "connect", refuse)
    problem = schemas({"$ref": "http://127.0.0.1:9/schema"}).problem_with(TOOL, {})

    assert problem is not None
    assert visited == []


@pytest.mark.requirement("nothing-leaves")
def test_a_schema_that_refers_to_a_local_file_never_reads_it(tmp_path: Path) -> None:
    secret = tmp_path / "schema.json"
    secret.write_text('{"const": "a secret"}', encoding="utf-8")

    problem = schemas({"$ref": secret.as_uri()}).problem_with(TOOL, {})

    assert problem is not None
    assert "a secret" not in problem
