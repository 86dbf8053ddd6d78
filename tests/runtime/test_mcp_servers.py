import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.configuration.load import parse_config
from runtime.configuration.upstream import Upstream
from runtime.mcp_servers import Imported, NotAListError, imported_of

pytestmark = pytest.mark.requirement("command.import-takes-what-it-can")


def taken(**servers: object) -> Imported:
    return imported_of({"mcpServers": servers}, names_taken=())


def upstream(server: object, *, name: str = "a") -> Upstream:
    [one] = imported_of({"mcpServers": {name: server}}, names_taken=()).taken
    [found] = parse_config(one.table, source="imported").upstream
    return found


def test_a_server_that_is_started_is_taken_whole() -> None:
    found = upstream(
        {"command": "npx", "args": ["-y", 'a "b"\\'], "env": {"MODE": "é\x7f"}, "cwd": "/srv"}
    )

    assert found.command == ("npx", "-y", 'a "b"\\')
    assert (found.env, found.cwd) == ({"MODE": "é\x7f"}, "/srv")


@pytest.mark.parametrize("value", ["${TOKEN}", "${env:TOKEN}", "$TOKEN"])
def test_a_value_that_is_a_variable_stays_out_of_the_file(value: str) -> None:
    started = upstream({"command": "x", "env": {"TOKEN": value}})
    elsewhere = upstream({"url": "https://example.org/mcp", "headers": {"X-Key": value}})

    assert (started.env, started.env_from) == ({}, ("TOKEN",))
    assert (elsewhere.headers, elsewhere.headers_from) == ({}, {"X-Key": "TOKEN"})


@pytest.mark.parametrize(
    ("server", "transport"),
    [
        ({"url": "https://example.org/mcp"}, "streamable"),
        ({"url": "https://example.org/mcp", "type": "http"}, "streamable"),
        ({"url": "https://example.org/events", "type": "sse"}, "sse"),
        ({"url": "https://example.org/sse"}, "sse"),
    ],
)
def test_a_remote_server_is_spoken_to_as_it_was(server: object, transport: str) -> None:
    assert upstream(server).transport == transport


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({}, "neither"),
        ([], "no JSON object"),
        ({"command": "x", "disabled": True}, "disabled"),
        ({"command": 1}, "command: expected a string"),
        ({"command": "x", "args": "y"}, "args: expected a list"),
        ({"command": "x", "env": {"A": 1}}, "env.A: expected a string"),
        ({"command": "x", "env": {"A": "${B}"}}, "env_from"),
        ({"url": "https://x", "headers": {"A": "Bearer ${B}"}}, "only a whole value"),
        ({"url": "ws://x"}, "expected http://"),
        ({"url": "https://x", "type": "ws"}, "no transport of MCP"),
    ],
)
def test_what_cannot_be_taken_is_left_out_with_the_reason(server: object, why: str) -> None:
    imported = taken(good={"command": "ok"}, bad=server)

    assert [one.listed_as for one in imported.taken] == ["good"]
    [left] = imported.left
    assert left.listed_as == "bad"
    assert why in left.why


def test_names_are_made_fit_and_never_given_twice() -> None:
    imported = imported_of(
        {"mcpServers": {"my server": {"command": "x"}, "my-server": {"command": "y"}, "time": {}}},
        names_taken={"time"},
    )

    assert [(one.listed_as, one.name) for one in imported.taken] == [("my server", "my-server")]
    assert imported.taken[0].notes == ("it is called 'my-server' here",)
    assert [left.listed_as for left in imported.left] == ["my-server", "time"]


@pytest.mark.parametrize("wrap", ["servers", "mcp"])
def test_the_lists_of_other_editors_are_read_too(wrap: str) -> None:
    document: object = {"servers": {"a": {"command": "x"}}}

    imported = imported_of(document if wrap == "servers" else {"mcp": document}, names_taken=())

    assert len(imported.taken) == 1


def test_a_secret_that_comes_into_the_file_is_told() -> None:
    [one] = taken(a={"command": "x", "env": {"TOKEN": "secret"}, "alwaysAllow": []}).taken

    assert any("env_from" in note for note in one.notes)
    assert any("alwaysAllow" in note for note in one.notes)


@pytest.mark.parametrize("document", [[], {}, {"mcpServers": []}, None, "x"])
def test_a_document_without_a_list_is_refused(document: object) -> None:
    with pytest.raises(NotAListError):
        imported_of(document, names_taken=())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
servers = st.dictionaries(
    st.sampled_from(["command", "args", "env", "url", "headers", "type", "cwd"]), json_values
)


@given(st.dictionaries(st.text(), servers | json_values, max_size=4))
def test_whatever_is_taken_is_a_valid_file(listed: dict[str, object]) -> None:
    imported = imported_of({"mcpServers": listed}, names_taken={"builtin", "local"})

    assert len(imported.taken) + len(imported.left) == len(listed)
    text = "".join(one.table for one in imported.taken)
    parsed = parse_config(text, source="imported")
    assert [one.name for one in parsed.upstream] == [one.name for one in imported.taken]
