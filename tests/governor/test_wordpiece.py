"""Cutting words into pieces, held against what BERT's own tokenizer is known to make of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.retrieval.wordpiece import TEXT_CHARS_MAX, WordPieces, words_of

# Of the tests of the tokenizer's makers.
PIECES = ["want", "##want", "##ed", "wa", "un", "runn", "##ing", ",", "low", "lowest", "a", "##a"]
SMALL = WordPieces({piece: number for number, piece in enumerate(PIECES)})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ah\u535a\u63a8zz", ["ah", "\u535a", "\u63a8", "zz"]),
        (" \tHeLLo!how  \n Are yoU?  ", ["hello", "!", "how", "are", "you", "?"]),
        ("H\u00e9llo", ["hello"]),
        ("Ünïcödé", ["unicode"]),
        ("read_file-v2.txt", ["read", "_", "file", "-", "v2", ".", "txt"]),
        ("$5 + 3 = 8", ["$", "5", "+", "3", "=", "8"]),
        ("¿qué?", ["¿", "que", "?"]),
        ("a\u00a0b\u3000c", ["a", "b", "c"]),
        ("a\x00b\u200bc\ufffdd", ["abcd"]),
        ("\ud800x", ["x"]),
        ("ok \U0001f600\U0001f44d\U0001f3fd", ["ok", "\U0001f600\U0001f44d\U0001f3fd"]),
        ("", []),
        (" \n\t", []),
    ],
)
def test_a_text_falls_into_words_and_signs(text: str, words: list[str]) -> None:
    assert list(words_of(text)) == words


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("unwanted running", ["un", "##want", "##ed", "runn", "##ing"]),
        ("UNwant\u00e9d, running", ["un", "##want", "##ed", ",", "runn", "##ing"]),
        ("lowest low", ["lowest", "low"]),
        ("unwantedX running", ["runn", "##ing"]),
        ("##ed", []),
        ("", []),
    ],
)
def test_a_word_falls_into_its_longest_pieces_and_one_unknown_has_none(
    text: str, pieces: list[str]
) -> None:
    assert [PIECES[number] for number in SMALL.numbers_of(text)] == pieces


def test_text_and_words_without_an_end_are_read_to_a_bound() -> None:
    assert len(SMALL.numbers_of("a " * 10_000_000)) == TEXT_CHARS_MAX // 2
    assert SMALL.numbers_of("a" * 101) == []
    assert len(SMALL.numbers_of("a" * 100)) == 100


@given(st.text(max_size=200))
def test_any_text_is_cut_into_known_pieces(text: str) -> None:
    numbers = SMALL.numbers_of(text)

    assert len(numbers) <= 3 * len(text)
    assert all(0 <= number < len(PIECES) for number in numbers)


@given(st.text(alphabet=st.characters(max_codepoint=0x7F), max_size=60))
def test_plain_text_is_cut_as_any_other(text: str) -> None:
    # A letter of another alphabet at the end takes the long way for all of it.
    assert [*words_of(text), "\u03b2"] == list(words_of(f"{text} \u03b2"))


def test_no_pieces_know_no_words() -> None:
    assert WordPieces({}).numbers_of("any word") == []
