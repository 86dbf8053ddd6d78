"""Ranking tools by the words of a request."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tool_gateway.finding_makers import TOOLS, an_entry, entries_of
from tool_gateway.discovery.index import ToolIndex, plain
from tool_gateway.discovery.texts import ToolText, text_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["properties", "items", "enum", "description", "a"]), inner, max_size=3
        )
    ),
    max_leaves=12,
)
NAMES = [path.split("/")[1] for path in TOOLS]
INDEX = ToolIndex([text_of(entry) for entry in entries_of(TOOLS)])


def best(request: str, index: ToolIndex = INDEX, names: list[str] = NAMES) -> list[str]:
    return [names[hit.number] for hit in index.search(request, limit=10)]


@pytest.mark.parametrize(
    ("request_", "tool"),
    [
        ("read a file", "read_file"),
        ("show me the text in /home/me/notes.md", "read_file"),
        ("what is in this folder", "list_directory"),
        ("will it rain tomorrow? check the forecast", "forecast"),
        ("e-mail the team", "send_message"),
        ("plot the sales as bars", "bar_chart"),
        ("forcast", "forecast"),
    ],
)
def test_a_request_in_other_words_finds_its_tool(request_: str, tool: str) -> None:
    assert tool in best(request_)[:2]


def test_a_name_that_the_request_spells_out_wins_over_mentions() -> None:
    names = ["convert", "audit_log", "describe"]
    index = ToolIndex(
        [
            ToolText(name="convert", description="Change a unit.", server="units", schema={}),
            ToolText(
                name="audit_log",
                description="Convert entries; convert times; convert names.",
                server="audit",
                schema={},
            ),
            ToolText(name="describe", description="Tell about a thing.", server="x", schema={}),
        ]
    )

    assert best("convert it", index, names)[0] == "convert"


def test_parameters_their_choices_and_the_server_are_words_of_a_tool() -> None:
    schema = {
        "type": "object",
        "properties": {
            "mode": {"enum": ["hexagonal"]},
            "deep": {"type": "object", "properties": {"altitude": {"description": "above sea"}}},
            "many": {"type": "array", "items": {"properties": {"longitude": {}}}},
        },
    }
    names = ["go", "stay"]
    index = ToolIndex(
        [
            ToolText(
                name="go", description="", server="drones", about="Quadrocopters", schema=schema
            ),
            ToolText(name="stay", description="Rest.", server="beds", schema={}),
        ]
    )

    for word in ("hexagonal", "altitude", "longitude", "drones", "quadrocopter"):
        assert best(word, index, names) == ["go"], word


def test_a_second_tool_of_the_same_name_stands_back_and_is_not_hidden() -> None:
    paths = {
        "one/read_file": "Read a file.",
        "two/read_file": "Read a file.",
        "three/file_reader_for_sheets": "Read a file of sheets.",
    }
    index = ToolIndex([text_of(entry) for entry in entries_of(paths)])

    found = best("read a file", index, list(paths))

    assert found[0] == "one/read_file"
    assert set(found) == set(paths)
    scores = {list(paths)[hit.number]: hit.score for hit in index.search("read a file", limit=3)}
    assert scores["two/read_file"] == pytest.approx(0.8 * scores["one/read_file"])


@pytest.mark.requirement("tools.only-allowed-are-found")
def test_what_is_closed_has_no_say_in_the_order_of_what_is_open() -> None:
    paths = {"one/read_file": "Read a file.", "two/read_file": "Read a file."}
    index = ToolIndex([text_of(entry) for entry in entries_of(paths)])

    (hit,) = index.search("read a file", limit=5, is_open=lambda number: number == 1)

    # Else its score would tell that there is another of the name.
    assert (hit.number, hit.score) == (1, 1.0)


def test_a_lift_brings_in_what_no_word_finds_and_a_nudge_does_not() -> None:
    lifted = INDEX.search("zzzz", limit=5, lifts={0: 0.3})

    assert [(hit.number, hit.score) for hit in lifted] == [(0, 0.3)]
    assert INDEX.search("zzzz", limit=5, nudges={0: 0.3}) == ()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("open /root/data/a.csv now", "open  file path  now"),
        ("list ~/notes", "list  directory path "),
        ("read C:\\work\\a.txt", "read  file path "),
        ("get https://example.org/weather?x=1 please", "get  website url  please"),
        ("write to ada@example.org", "write to  email address "),
        ("cats and/or dogs", "cats and/or dogs"),
    ],
)
def test_an_address_in_a_request_is_said_by_kind(said: str, meant: str) -> None:
    assert plain(said) == meant


@given(st.text(max_size=60), st.integers(1, 10))
def test_every_search_is_bounded_ordered_and_the_same_again(request_: str, limit: int) -> None:
    hits = INDEX.search(request_, limit=limit)

    assert len(hits) <= limit
    assert len({hit.number for hit in hits}) == len(hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert hits == INDEX.search(request_, limit=limit)


@pytest.mark.requirement("input.hostile-schema")
@given(JSON, st.text(max_size=30))
def test_whatever_a_server_writes_its_tools_can_be_indexed(schema: object, text: str) -> None:
    entry = an_entry("odd/tool", text)
    odd = ToolText(
        name=text,
        description=text,
        server="odd",
        schema=schema if isinstance(schema, dict) else {},
    )

    ToolIndex([text_of(entry), odd]).search(text, limit=5)


def test_an_empty_catalogue_finds_nothing() -> None:
    assert ToolIndex([]).search("read a file", limit=5) == ()
