import socket
from pathlib import Path

import pytest

from governor.ids import ToolName, UpstreamName
from tool_gateway.catalog import Catalog, ToolEntry
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
