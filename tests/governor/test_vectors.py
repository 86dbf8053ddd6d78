"""Vectors of texts, their file, and texts by how near they lie."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.errors import InvalidVectorsError
from governor.retrieval.similarity import TextVectors
from governor.retrieval.vector_file import packed, unpacked
from governor.retrieval.vectors import StaticVectors

PIECES = ["file", "document", "rain", "##s", "of"]
STEPS = np.array([[100, 0], [100, 10], [0, 120], [1, 1], [0, 0]], dtype=np.int8)
SCALES = np.array([0.5, 0.25, 0.5, 0.25, 1.0], dtype=np.float32)
FILE = packed(PIECES, steps=STEPS, scales=SCALES)


@pytest.fixture(name="small")
def small_vectors() -> StaticVectors:
    return unpacked(FILE)


def test_a_text_lies_between_its_pieces_at_length_one(small: StaticVectors) -> None:
    # 100 * 0.5 along one axis and 120 * 0.5 along the other.
    expected = np.array([50, 60]) / np.hypot(50, 60)

    assert small.axes == 2
    assert small.embed("File, rain!") == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("text", ["", "xylophone", "\U0001f600", "\u5929\u6c17", "of", "\ud800"])
def test_what_holds_no_known_piece_is_all_zeros(small: StaticVectors, text: str) -> None:
    assert not small.embed(text).any()


@given(st.lists(st.sampled_from(["file", "rains", "document", "of", "?"]), max_size=12))
def test_the_order_of_words_does_not_matter(words: list[str]) -> None:
    small = unpacked(FILE)

    forwards, backwards = small.embed(" ".join(words)), small.embed(" ".join(reversed(words)))

    assert forwards == pytest.approx(backwards, abs=1e-6)


def test_a_text_of_any_length_is_embedded_within_bounds(small: StaticVectors) -> None:
    assert small.embed("file " * 5_000_000) == pytest.approx(small.embed("file"), abs=1e-5)


@pytest.mark.parametrize(
    ("file", "fault"),
    [
        (b"", "shorter"),
        (b"GIF89a".ljust(64), "begins with"),
        (FILE[:-64], "do not hold"),
        (FILE + b"\0", "do not hold"),
        (FILE.replace(b"FLYVEC01\x05", b"FLYVEC01\x00"), "out of range"),
        (FILE.replace(b"document", b"docu\nent"), "pieces"),
        (FILE.replace(b"document", b"docu\xff\xfent"), "UTF-8"),
    ],
)
def test_a_file_of_anything_else_is_refused(file: bytes, fault: str) -> None:
    with pytest.raises(InvalidVectorsError, match=fault):
        unpacked(file)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(tail: bytes) -> None:
    with pytest.raises(InvalidVectorsError):
        unpacked(FILE[:20] + tail)


def test_what_is_near_is_scored_and_what_is_far_is_not(small: StaticVectors) -> None:
    texts = [{"name": "readDocument"}, {"name": "rain_of"}, {"name": ""}, {"other": "file"}]

    scores = TextVectors(texts, {"name": 1.0}, small).scores("files")

    assert set(scores) == {0}
    assert scores[0] == pytest.approx(small.embed("file") @ small.embed("document"), abs=0.01)


def test_a_heavier_field_says_more_of_where_a_text_lies(small: StaticVectors) -> None:
    texts = [{"name": "rain", "rest": "file"}, {"name": "file", "rest": "rain"}]

    scores = TextVectors(texts, {"name": 2.0, "rest": 1.0}, small).scores("rain")

    assert scores[0] > scores[1] > 0


def test_no_texts_and_empty_queries_have_no_scores(small: StaticVectors) -> None:
    assert TextVectors([], {"name": 1.0}, small).scores("file") == {}
    assert TextVectors([{"name": "file"}], {"name": 1.0}, small).scores("") == {}
