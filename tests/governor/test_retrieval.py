"""Terms, weighted fields and fusion, held against the textbook and against themselves."""

from collections import Counter
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.retrieval.fields import FieldTerms, WeightedFields
from governor.retrieval.fusion import added, fused, measured
from governor.retrieval.stemmer import stem
from governor.retrieval.terms import terms_of, words_of
from governor.retrieval.thesaurus import CONCEPTS

PLAIN = {"text": FieldTerms(weight=1.0, evenness=0.75)}
WORDS = st.lists(st.sampled_from(["file", "mail", "chart", "day", "place"]), max_size=8)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        # Of the examples in Porter's paper.
        ("caresses", "caress"),
        ("ponies", "poni"),
        ("cats", "cat"),
        ("agreed", "agre"),
        ("plastered", "plaster"),
        ("motoring", "motor"),
        ("sing", "sing"),
        ("conflated", "conflat"),
        ("hopping", "hop"),
        ("filing", "file"),
        ("happy", "happi"),
        ("relational", "relat"),
        ("digitizer", "digit"),
        ("formaliti", "formal"),
        ("triplicate", "triplic"),
        ("electrical", "electr"),
        ("goodness", "good"),
        ("adjustment", "adjust"),
        ("adoption", "adopt"),
        ("probate", "probat"),
        ("controll", "control"),
        ("sky", "sky"),
        # And what is no English word.
        ("db", "db"),
        ("日本", "日本"),
    ],
)
def test_a_stem_is_porters(word: str, expected: str) -> None:
    assert stem(word) == expected


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz", max_size=20))
def test_a_stem_is_no_longer_than_its_word(word: str) -> None:
    assert len(stem(word)) <= len(word)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getHTTPStatus_v2", ["get", "http", "status", "v", "2"]),
        ("read-file.txt", ["read", "file", "txt"]),
        ("What is the weather?", ["weather"]),
        ("查天气", ["查天", "天气", "查", "天", "气"]),
        ("überprüfen", ["ü", "berpr", "ü", "fen"]),
        ("", []),
    ],
)
def test_identifiers_and_sentences_fall_into_words(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_a_text_without_an_end_is_read_to_a_bound() -> None:
    assert len(words_of("word " * 1_000_000)) <= 4_000
    assert len(words_of("x" * 1_000_000)[0]) <= 64


def test_words_of_one_meaning_share_a_concept() -> None:
    assert set(terms_of("picture").concepts) & set(terms_of("images").concepts)
    assert not set(terms_of("picture").concepts) & set(terms_of("invoice").concepts)
    assert all(concepts for concepts in CONCEPTS.values())


def test_a_misspelt_word_shares_fragments_with_the_plain_one() -> None:
    asked, meant = terms_of("calcuate"), terms_of("calculate")

    assert not set(asked.stems) & set(meant.stems)
    assert len(set(asked.fragments) & set(meant.fragments)) >= 4


def textbook(texts: list[list[str]], query: list[str]) -> dict[int, float]:
    """Return BM25 as Robertson wrote it, with k1 = 1.2 and b = 0.75."""
    mean = sum(map(len, texts)) / len(texts) or 1.0
    scores = {}
    for number, words in enumerate(texts):
        counts, score = Counter(words), 0.0
        for word in sorted(set(query)):
            holders = sum(word in other for other in texts)
            rarity = log(1 + (len(texts) - holders + 0.5) / (holders + 0.5))
            bent = counts[word] + 1.2 * (0.25 + 0.75 * len(words) / mean)
            score += rarity * counts[word] * 2.2 / bent
        if set(words) & set(query):
            scores[number] = score
    return scores


@given(st.lists(WORDS, min_size=1, max_size=6), WORDS)
def test_one_field_is_plain_bm25(texts: list[list[str]], query: list[str]) -> None:
    fields = WeightedFields([{"text": Counter(words)} for words in texts], PLAIN)

    assert fields.scores(query) == pytest.approx(textbook(texts, query))


@given(st.lists(WORDS, min_size=1, max_size=6), WORDS)
def test_the_order_of_words_and_their_number_in_a_query_do_not_matter(
    texts: list[list[str]], query: list[str]
) -> None:
    fields = WeightedFields([{"text": Counter(words)} for words in texts], PLAIN)

    assert fields.scores(query) == fields.scores([*reversed(query), *query])


def test_a_word_counts_more_in_a_heavier_field() -> None:
    fields = {
        "name": FieldTerms(weight=2.0, evenness=0.0),
        "rest": FieldTerms(weight=1.0, evenness=0.0),
    }
    texts = [
        {"name": Counter(["chart"]), "rest": Counter(["mail"])},
        {"name": Counter(["mail"]), "rest": Counter(["chart"])},
    ]

    scores = WeightedFields(texts, fields).scores(["chart"])

    assert scores[0] > scores[1] > 0


def test_no_texts_have_no_scores() -> None:
    assert WeightedFields([], PLAIN).scores(["chart"]) == {}


def test_scorings_are_measured_by_their_best_before_they_are_added() -> None:
    words, fragments = {1: 10.0, 2: 5.0}, {2: 0.1}

    assert fused([(words, 1.0), (fragments, 0.7)]) == pytest.approx({1: 1.0, 2: 1.2})
    assert added([(words, 1.0), (fragments, 0.7)]) == pytest.approx({1: 10.0, 2: 5.07})
    assert fused([({}, 1.0), ({3: 0.0}, 1.0)]) == {}
    assert measured({1: 0.3, 2: 0.1}) == {1: 1.0, 2: pytest.approx(1 / 3)}
    assert measured({}) == measured({3: 0.0}) == {}
