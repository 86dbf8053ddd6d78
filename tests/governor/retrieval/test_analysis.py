"""What a text in memory is found by."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.retrieval.analysis import (
    QUERY_TERMS_MAX,
    TEXT_CHARS_MAX,
    Trait,
    index_terms,
    query_terms,
    traits_of,
)
from governor.retrieval.query import query_parts
from governor.retrieval.vectors import StaticVectors
from governor.retrieval.wordpiece import WordPieces


def test_words_are_kept_as_stems_in_their_order_with_repetitions() -> None:
    terms = index_terms("The potters were painting, and painted cafés in 2023!")

    assert terms == "potter paint paint cafe 2023"


def test_a_question_asks_for_what_it_is_about_and_each_once() -> None:
    assert query_terms("When did she paint the painting of the sea?") == ("paint", "sea")


def test_irregular_and_short_forms_are_found_by_one_another() -> None:
    assert set(query_terms("Did mum buy three children's bikes?")) == set(
        index_terms("Mother bought 3 kids bicycles").split()
    )


def test_scripts_without_spaces_are_found_by_pairs() -> None:
    assert index_terms("我喜欢北京") == "我喜 喜欢 欢北 北京"
    assert set(query_terms("北京在哪里?")) & set(index_terms("我喜欢北京").split()) == {"北京"}


@given(st.text())
def test_terms_are_letters_and_digits_alone(text: str) -> None:
    terms = index_terms(text)

    assert re.fullmatch(r"([^\W_]+( [^\W_]+)*)?", terms), terms
    assert set(query_terms(text)) <= set(terms.split())


@pytest.mark.requirement("memory.found-in-any-text")
def test_a_hundred_thousand_words_are_read_to_a_bound() -> None:
    text = " ".join(f"word{number}x" for number in range(100_000))

    assert len(query_terms(text)) <= QUERY_TERMS_MAX
    assert len(index_terms(text)) <= 2 * TEXT_CHARS_MAX
    assert query_terms('"NEAR" OR (a* ^b) -c "') == ("near", "b", "c")


@pytest.mark.parametrize(
    ("text", "traits"),
    [
        ("How long did you stay?", Trait.QUESTION | Trait.ASKS_WHEN | Trait.ASKS_NUMBER),
        ("I saw it last week.", Trait.SELF | Trait.TIME),
        ("Look! [image: a dog]", Trait.IMAGE),
        ("Did you see? [image: a dog]", Trait.QUESTION | Trait.IMAGE),
        ("What month is it due", Trait.ASKS_WHEN | Trait.TIME),
        ("Three of them", Trait.NUMBER),
        ("我昨天去了", Trait.SELF | Trait.TIME),
        ("blue", 0),
    ],
)
def test_traits_are_seen_without_understanding(text: str, traits: int) -> None:
    seen = traits_of(text)

    assert seen & traits == traits
    assert bool(seen) == bool(traits)


def test_a_question_in_another_script_is_asked_by_words_alone(small: StaticVectors) -> None:
    assert query_parts("my file", small).vector is not None
    assert query_parts("我的 file 在哪里", small).vector is None
    assert query_parts("my file").vector is None


@pytest.fixture(name="small")
def small_vectors() -> StaticVectors:
    return StaticVectors(
        pieces=WordPieces({"file": 0}),
        steps=np.ones((1, 2), dtype=np.int8),
        scales=np.ones(1, dtype=np.float32),
    )
