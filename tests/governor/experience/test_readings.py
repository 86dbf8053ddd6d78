"""How much of what was found is shown, and what it costs."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.amounts import Amounts, Unit
from governor.experience.answer import Finding, answered
from governor.experience.charges import FREE, MemoryPrices, never_above, reading, writing
from governor.experience.reading import Candidate, fitted
from governor.experience.rendering import shown
from governor.experience.summary import SUMMARY_CHARS_MAX, cleaned, summary_of
from governor.experience.tokens import beginning_of, tokens_of
from governor.ids import ExperienceId
from tests.governor.experience.makers import OWN, Said, experience

KEY = b"a key of the house"
TEXTS = st.lists(
    st.text(alphabet='ab c.\n{}"é漢', min_size=1, max_size=600), min_size=1, max_size=8
)


def findings_of(texts: list[str]) -> list[Finding]:
    found = []
    for number, text in enumerate(texts):
        one = replace(
            experience(Said()), experience_id=ExperienceId(f"exp_{number}"), tokens=tokens_of(text)
        )
        brief = shown(one, summary_of(text.encode(), "text/plain"), own={OWN})
        found.append(Finding(experience=one, brief=brief, whole=shown(one, text, own={OWN})))
    return found


@given(
    sizes=st.lists(st.tuples(st.integers(1, 500), st.integers(1, 60)), max_size=20),
    tokens_max=st.integers(0, 2_000),
)
def test_what_is_shown_fits_and_what_is_not_is_counted(
    sizes: list[tuple[int, int]], tokens_max: int
) -> None:
    candidates = [
        Candidate(index=ExperienceId(f"exp_{n}"), whole_tokens=whole, brief_tokens=brief)
        for n, (whole, brief) in enumerate(sizes)
    ]

    found = fitted(candidates, tokens_max=tokens_max, unseen=3)

    assert found.tokens <= max(tokens_max, 0)
    assert not found.whole & found.brief
    assert len(found.whole | found.brief) + found.left_out.count == len(candidates) + 3


@given(texts=TEXTS, tokens_max=st.integers(1, 1_500))
def test_an_answer_is_never_longer_than_its_bound_nor_silent_about_the_rest(
    texts: list[str], tokens_max: int
) -> None:
    answer = answered(findings_of(texts), tokens_max=tokens_max, key=KEY, none_found="none")

    hits, left_out = answer.structured["hits"], answer.structured["left_out"]
    assert isinstance(hits, list)
    assert isinstance(left_out, dict)
    assert answer.tokens <= tokens_max
    assert tokens_of(answer.text) <= tokens_max or not hits
    assert len(hits) + left_out["count"] == len(texts)
    assert answer.indices == {hit["index"] for hit in hits}


def test_one_long_text_does_not_crowd_out_the_others() -> None:
    texts = ["long " * 400, *(f"short number {number}" for number in range(4))]

    answer = answered(findings_of(texts), tokens_max=800, key=KEY, none_found="none")

    hits = answer.structured["hits"]
    assert isinstance(hits, list)
    assert [hit["is_whole"] for hit in hits] == [False, True, True, True, True]


def test_nothing_found_is_said_and_costs_nothing() -> None:
    answer = answered([], tokens_max=100, key=KEY, unseen=2, none_found="Nothing fits.")

    assert (answer.text, answer.tokens) == ("Nothing fits.", 0)
    assert answer.structured["left_out"] == {"count": 2, "tokens": 0, "indices": []}


@given(tokens=st.integers(0, 10**6), size=st.integers(0, 10**9), price=st.integers(0, 10**6))
def test_prices_are_rounded_up_and_grow_with_what_is_used(
    tokens: int, size: int, price: int
) -> None:
    prices = MemoryPrices(read_microusd_per_ktoken=price, write_microusd_per_mib=price)

    read, written = prices.of(reading(tokens)), prices.of(writing(size_bytes=size))

    assert 0 <= read * 1000 - tokens * price < 1000
    assert 0 <= written * 1024**2 - size * price < 1024**2
    assert prices.of(reading(tokens).plus(writing(size_bytes=size))) == read + written
    assert FREE.of(reading(tokens)) == 0


def test_no_more_is_charged_than_was_held() -> None:
    used = Amounts({Unit.MEMORY_READ_TOKENS: 120, Unit.MEMORY_WRITES: 1})

    assert never_above(used, reading(100)).as_dict() == {
        "memory_read_tokens": 100,
        "memory_writes": 0,
    }


def test_a_summary_says_what_kind_of_thing_it_is_of() -> None:
    prose = "The disk is full. It was cleaned. " + "More words follow here. " * 40 + "It took 17 h."
    listed = b'[{"id": 7, "name": "a"}, {"id": 8, "name": "b"}]'

    assert summary_of(prose.encode(), "text/plain").startswith("The disk is full. It was cleaned.")
    assert summary_of(prose.encode(), "text/plain").endswith("[17]")
    assert summary_of(listed, "application/json") == "a list of 2, of id, name"
    assert summary_of(b'{"user": {"id": 1}, "rows": [1, 2], "note": null}', "") == (
        "user: {id}; rows: [2]; note: null"
    )
    assert summary_of(b"\x89PNG\xff\x00", "image/png") == "6 bytes of image/png"
    assert summary_of(b"  \n ", "text/plain") == "nothing but white space"
    assert summary_of(b"[" * 200_000, "application/json")  # too deep to be JSON


@given(content=st.one_of(st.binary(max_size=2_000), st.text(max_size=2_000).map(str.encode)))
def test_a_summary_is_one_short_line_of_whatever_there_is(content: bytes) -> None:
    summary = summary_of(content, "text/plain")

    assert 0 < len(summary) <= SUMMARY_CHARS_MAX
    assert summary.isprintable()
    assert cleaned(summary) == summary


@pytest.mark.requirement("memory.bounded")
@pytest.mark.parametrize("padding", [" " * 16_384, "\n" * 70_000, "\x00" * 100_000, "a" * 300_000])
def test_no_padding_hides_how_much_a_text_is(padding: str) -> None:
    words = "word " * 9_000

    assert tokens_of(padding + words) >= 9_000
    assert tokens_of(words + padding) >= 9_000


@pytest.mark.requirement("memory.bounded")
@given(text=st.text(max_size=300), more=st.integers(1, 400), most=st.integers(0, 200))
def test_the_beginning_of_a_text_is_no_more_than_so_many_tokens(
    text: str, more: int, most: int
) -> None:
    text *= more

    begun = beginning_of(text, most)

    assert text.startswith(begun)
    assert tokens_of(begun) <= most
    assert begun == text or tokens_of(begun) == most
