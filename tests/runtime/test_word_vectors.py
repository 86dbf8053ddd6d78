"""The shipped word vectors: whole, known by their card, and of use to tool search."""

import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from governor.retrieval.vectors import StaticVectors
from runtime.word_vectors import WordVectorsError, vectors_if_any, word_vectors
from runtime.word_vectors.loading import VECTORS_PATH
from tests.tool_gateway.finding_makers import TOOLS, entries_of
from tool_gateway.discovery.index import ToolIndex
from tool_gateway.discovery.texts import text_of

NAMES = [path.split("/")[1] for path in TOOLS]
BYTES_MAX = 8_000_000


@pytest.fixture(name="vectors", scope="module")
def shipped_vectors() -> StaticVectors:
    return word_vectors()


@pytest.mark.requirement("retrieval.shipped-vectors")
def test_the_shipped_file_is_the_one_that_its_card_describes() -> None:
    card = VECTORS_PATH.with_name("CARD.md").read_text(encoding="utf-8")
    file = VECTORS_PATH.read_bytes()

    assert len(file) <= BYTES_MAX
    assert f"{len(file):,} bytes" in card
    assert re.findall(r"`([0-9a-f]{64})` \(this file\)", card) == [hashlib.sha256(file).hexdigest()]


@pytest.mark.requirement("retrieval.shipped-vectors")
def test_a_text_has_the_same_vector_in_every_process(vectors: StaticVectors) -> None:
    text = "Plot the café's sales 📈 of 東京, getHTTPStatus_v2"
    script = (
        "import sys; from runtime.word_vectors import word_vectors;"
        "sys.stdout.buffer.write(word_vectors().embed(sys.argv[1]).tobytes())"
    )
    run = [sys.executable, "-X", "utf8", "-c", script, text]

    others = [
        subprocess.run(
            run,
            cwd=VECTORS_PATH.parents[2],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "2")
    ]

    assert others == [vectors.embed(text).tobytes()] * 2


@pytest.mark.parametrize(
    ("text", "near", "far"),
    [
        ("remove the file", "delete a document", "book a flight"),
        ("doctor", "physician", "invoice"),
        ("latitude and longitude of a street", "geocode an address", "compile the program"),
        ("will it snow tomorrow", "weather forecast", "send a message"),
    ],
)
def test_what_means_the_same_lies_nearer_than_what_does_not(
    vectors: StaticVectors, text: str, near: str, far: str
) -> None:
    meant = vectors.embed(text)

    assert float(meant @ vectors.embed(near)) > float(meant @ vectors.embed(far)) + 0.1


@pytest.mark.parametrize("text", ["", "   ", "\U0001f600\U0001f600", "\x00\x01", "\ud800"])
def test_what_no_piece_is_known_of_is_all_zeros(vectors: StaticVectors, text: str) -> None:
    assert not vectors.embed(text).any()


@pytest.mark.requirement("retrieval.shipped-vectors")
def test_a_tool_is_found_by_a_word_that_shares_nothing_with_its_text(
    vectors: StaticVectors,
) -> None:
    texts = [text_of(entry) for entry in entries_of(TOOLS)]

    by_words, by_meaning = ToolIndex(texts), ToolIndex(texts, vectors=vectors)

    for word, tool in (("snow", "forecast"), ("histogram", "bar_chart")):
        assert by_words.search(word, limit=5) == ()
        (hit,) = by_meaning.search(word, limit=5)
        assert NAMES[hit.number] == tool


def test_what_is_near_to_no_tool_finds_none(vectors: StaticVectors) -> None:
    texts = [text_of(entry) for entry in entries_of(TOOLS)]

    assert ToolIndex(texts, vectors=vectors).search("zzzz", limit=5) == ()


@pytest.mark.requirement("retrieval.shipped-vectors")
@pytest.mark.parametrize("file", [None, b"", b"anything else"])
def test_without_usable_vectors_words_alone_decide(tmp_path: Path, file: bytes | None) -> None:
    path = tmp_path / "english.vectors"
    if file is not None:
        path.write_bytes(file)

    assert vectors_if_any(path) is None
    with pytest.raises(WordVectorsError, match=re.escape(str(path))):
        word_vectors(path)
