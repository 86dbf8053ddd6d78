from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.ids import UpstreamName
from tool_gateway.offers import Offers, merged_face

ONE, TWO = UpstreamName("one"), UpstreamName("two")


def templates(**owned: str) -> Offers:
    offers = Offers()
    listed = [(UpstreamName(name), [{"uriTemplate": uri}]) for name, uri in owned.items()]
    offers.merge_resources(listed, key="uriTemplate")
    return offers


@pytest.mark.parametrize(
    ("template", "uri", "owner"),
    [
        ("mem://page/{number}", "mem://page/7", ONE),
        ("mem://page/{number}", "mem://page/7/8", None),
        ("mem://page/{+path}", "mem://page/7/8", ONE),
        ("mem://page{?q}", "mem://page?q=1", ONE),
        ("mem://page{/a,b}", "mem://page/x/y", ONE),
        ("mem://page{#part}", "mem://page#top", ONE),
        ("mem://(page)/{n}", "mem://(page)/1", ONE),
        ("mem://(page)/{n}", "mem://page/1", None),
    ],
)
def test_a_uri_belongs_to_the_upstream_whose_template_it_matches(
    template: str, uri: str, owner: UpstreamName | None
) -> None:
    found = templates(one=template).owner_of(uri)

    assert found == owner


@pytest.mark.requirement("protocol.upstreams-are-merged")
def test_what_is_listed_as_it_stands_goes_before_what_a_template_matches() -> None:
    offers = templates(one="mem://{name}")
    offers.merge_resources([(TWO, [{"uri": "mem://note"}])], key="uri")

    assert offers.owner_of("mem://note") == TWO
    assert offers.owner_of("mem://other") == ONE


URIS = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=6)


@given(URIS, URIS)
def test_each_shared_uri_is_listed_once_or_told(first: list[str], second: list[str]) -> None:
    listed: list[tuple[UpstreamName, list[Mapping[str, object]]]] = [
        (ONE, [{"uri": uri} for uri in dict.fromkeys(first)]),
        (TWO, [{"uri": uri} for uri in dict.fromkeys(second)]),
    ]
    offers = Offers()

    merged, collisions = offers.merge_resources(listed, key="uri")

    assert [item["uri"] for _, item in merged] == list(dict.fromkeys([*first, *second]))
    assert {one.key for one in collisions} == set(first) & set(second)
    assert all(offers.owner_of(uri) == ONE for uri in first)


def test_a_prompt_that_was_not_listed_yet_is_found_by_its_own_words() -> None:
    offers = Offers()

    assert offers.prompt_of("two__greet", [ONE, TWO]) == (TWO, "greet")
    assert offers.prompt_of("greet", [ONE, TWO]) is None


def test_a_long_name_is_found_once_it_was_listed() -> None:
    offers, long = Offers(), "x" * 100

    [(_, shown)], _ = offers.merge_prompts([(ONE, [{"name": long}])])

    assert len(str(shown["name"])) == 64
    assert offers.prompt_of(str(shown["name"]), [ONE]) == (ONE, long)


def test_the_extensions_of_all_are_offered_together() -> None:
    face = merged_face([{"extensions": {"a": {}}}, {}, {"extensions": {"b": {"c": 1}}}])

    assert face["extensions"] == {"a": {}, "b": {"c": 1}}
    assert "extensions" not in merged_face([{}])
