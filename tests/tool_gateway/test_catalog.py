import logging
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from governor.ids import ToolName, UpstreamName
from tool_gateway.builtin import NAMES
from tool_gateway.catalog import NAME_LENGTH_MAX, Catalog, ToolEntry, exposed_name
from tool_gateway.errors import CatalogError, UnknownToolError
from tool_gateway.stock import Stock

SAFE = re.compile(r"[A-Za-z0-9_-]{1,64}")
# What a strict JSON parser lets through: any text but lone surrogates.
ANY_NAME = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=120)


def entry(name: str, backend: str = "files", original: str = "tool") -> ToolEntry:
    return ToolEntry(
        exposed=ToolName(name),
        original=original,
        backend=UpstreamName(backend),
        definition={"name": original},
    )


@pytest.mark.requirement("tool-name.is-safe")
@given(upstream=ANY_NAME, tool=ANY_NAME, prefixed=st.booleans())
def test_an_exposed_name_is_always_safe_and_always_the_same(
    upstream: str, tool: str, *, prefixed: bool
) -> None:
    name = exposed_name(UpstreamName(upstream), tool, prefixed=prefixed)

    assert SAFE.fullmatch(name)
    assert name == exposed_name(UpstreamName(upstream), tool, prefixed=prefixed)


@pytest.mark.requirement("tool-name.is-safe")
@given(one=ANY_NAME, other=ANY_NAME)
def test_two_tools_of_an_upstream_keep_two_names(one: str, other: str) -> None:
    assume(one != other)

    assert exposed_name(UpstreamName("up"), one) != exposed_name(UpstreamName("up"), other)


@pytest.mark.requirement("tool-name.is-safe")
def test_a_name_that_ends_in_a_line_break_is_not_safe_as_it_is() -> None:
    """`$` also matches before a final line break."""
    name = exposed_name(UpstreamName("up"), "tool\n")

    assert SAFE.fullmatch(name)


def test_a_safe_name_is_kept_with_its_upstream_in_front() -> None:
    assert exposed_name(UpstreamName("git"), "read_file") == "git__read_file"
    assert exposed_name(UpstreamName("git"), "read_file", prefixed=False) == "read_file"


def test_a_long_name_is_cut_and_ends_in_its_own_hash() -> None:
    """The digest is spelled out, because clients keep these names between releases."""
    long = exposed_name(UpstreamName("up"), "a" * 80)
    other = exposed_name(UpstreamName("up"), "a" * 81)

    assert long == "up__" + "a" * 51 + "_955a4cb7"
    assert len(long) == len(other) == NAME_LENGTH_MAX
    assert long[:-8] == other[:-8]
    assert long[-8:] != other[-8:]


@pytest.mark.requirement("tool-name.is-safe")
def test_two_tools_of_one_name_are_refused_with_both_named() -> None:
    with pytest.raises(CatalogError, match=r"git/read.*files/read"):
        Catalog([entry("read", "files", "read"), entry("read", "git", "read")])


@pytest.mark.requirement("input.unknown-tool")
def test_an_unknown_tool_is_refused_by_name() -> None:
    with pytest.raises(UnknownToolError, match="nope"):
        Catalog([entry("read")]).find("nope")


def test_tools_are_listed_in_the_order_of_their_names() -> None:
    catalog = Catalog([entry("c"), entry("a"), entry("b")])

    assert [one.exposed for one in catalog] == ["a", "b", "c"]
    assert len(catalog) == 3


def test_a_tool_without_a_schema_takes_any_object() -> None:
    assert entry("a").input_schema == {"type": "object"}
    assert not entry("a").has_output_schema


@pytest.mark.requirement("tool-name.is-safe")
def test_a_name_that_two_upstreams_claim_is_given_to_neither(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stock = Stock([entry("status", "flyball")])

    with caplog.at_level(logging.ERROR):
        stock.replace([entry("read", "files"), entry("read", "git"), entry("write", "git")])

    assert [one.exposed for one in stock.catalog] == ["status", "write"]
    assert "left out" in caplog.text


@pytest.mark.requirement("tool-name.is-safe")
def test_an_upstream_cannot_take_a_built_in_tool_away() -> None:
    stock = Stock([entry("memory_read", "flyball")])

    stock.replace([entry("memory_read", "rogue")])

    assert stock.catalog.find("memory_read").backend == "flyball"


@pytest.mark.requirement("tool-name.is-safe")
@pytest.mark.parametrize(
    "name", ["governor_status", "governor_close", "tools_call", "governor_answer", "shell_run"]
)
def test_an_upstream_cannot_take_the_name_of_a_built_in_tool_that_is_hidden(name: str) -> None:
    stock = Stock((), reserved=NAMES)

    stock.replace([entry(name, "rogue"), entry("read", "rogue")])

    assert [one.exposed for one in stock.catalog] == ["read"]


def test_an_upstream_that_went_takes_its_tools_along() -> None:
    stock = Stock([entry("status", "flyball")])
    stock.replace([entry("read")])

    stock.replace([])

    assert [one.exposed for one in stock.catalog] == ["status"]
