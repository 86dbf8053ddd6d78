"""A namespace held in memory finds what answers, and nothing that may not be seen."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.errors import InvalidRankerError
from governor.retrieval.analysis import index_terms, traits_of
from governor.retrieval.features import BY_MEANING, FEATURES
from governor.retrieval.postings import Background
from governor.retrieval.query import QueryParts, query_parts
from governor.retrieval.ranker import PLAIN_RANKER, LinearRanker
from governor.retrieval.selection import CANDIDATES
from governor.retrieval.shelf import Shelf, ShelfEntry

AXES = 4
WORDS = ["sea", "boat", "dog", "garden", "I", "yesterday", "?", "red", "Ann", "three"]
Texts = list[tuple[str, str, list[str]]]
TEXTS = st.lists(
    st.tuples(
        st.sampled_from(["", "a", "b"]),
        st.sampled_from(["", "Ann", "Bob"]),
        st.lists(st.sampled_from(WORDS), max_size=5),
    ),
    max_size=12,
)
QUESTIONS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4)


def entry(number: int, text: str, *, session: str = "s", actor: str = "") -> ShelfEntry:
    chance = np.random.default_rng(len(text))
    return ShelfEntry(
        number=number,
        session=session,
        actor=actor,
        at_ms=number,
        terms=index_terms(text),
        traits=traits_of(text),
        vector=chance.standard_normal(AXES).astype(np.float32) / 4,
    )


def shelf_of(entries: Sequence[ShelfEntry]) -> Shelf:
    shelf = Shelf(axes=AXES)
    shelf.add(entries)
    return shelf


def entries_of(texts: Texts) -> list[ShelfEntry]:
    return [
        entry(number, " ".join(words), session=session, actor=actor)
        for number, (session, actor, words) in enumerate(texts)
    ]


def asked(words: list[str], *, has_vector: bool) -> QueryParts:
    parts = query_parts(" ".join(words))
    vector = np.array([0.5, -0.5, 0.5, 0.5], dtype=np.float32) if has_vector else None
    return QueryParts(terms=parts.terms, traits=parts.traits, vector=vector)


def found(shelf: Shelf, parts: QueryParts, **options: object) -> dict[int, float]:
    return dict(shelf.search(parts, most=100, **options))  # type: ignore[arg-type]


def seen(shelf: Shelf, parts: QueryParts, **options: object) -> dict[int, list[float]]:
    numbers, rows = shelf.features(parts, **options)  # type: ignore[arg-type]
    return dict(zip(numbers.tolist(), rows.T.tolist(), strict=True))


def is_alike(one: dict[int, list[float]], other: dict[int, list[float]]) -> None:
    assert one.keys() == other.keys()
    for number, features in one.items():
        assert features == pytest.approx(other[number], abs=1e-4)


def first(shelf: Shelf, question: str) -> int:
    return shelf.search(query_parts(question), most=1)[0][0]


@pytest.mark.requirement("memory.found-by-neighbours")
def test_the_answer_to_a_question_is_found_by_the_words_of_the_question() -> None:
    turns = ["Hello there", "Where is your boat now?", "Down by the harbour", "Nice weather"]
    shelf = shelf_of([entry(number, text) for number, text in enumerate(turns)])
    best = shelf.search(query_parts("Where is the boat?"), most=2)

    assert {number for number, _ in best} == {1, 2}


@pytest.mark.requirement("memory.found-by-actor")
def test_who_is_named_is_asked_for_first() -> None:
    shelf = shelf_of(
        [
            entry(1, "I bought a red boat", actor="Ann", session=""),
            entry(2, "I bought a red boat", actor="Bob", session=""),
            entry(3, "I like gardens", actor="Ann", session=""),
        ]
    )

    assert first(shelf, "Which boat did Bob buy?") == 2
    assert first(shelf, "Which boat did Ann buy?") == 1
    assert first(shelf, "What does Ann like?") == 3


def test_when_is_answered_by_what_tells_a_time() -> None:
    shelf = shelf_of(
        [entry(1, "The boat race was fun", session=""), entry(2, "Boat race today", session="")]
    )

    assert first(shelf, "When was the boat race?") == 2


def test_who_is_named_is_looked_at_among_however_many() -> None:
    texts = ["boat and sea"] * (2 * CANDIDATES)
    shelf = shelf_of(
        [
            entry(number, text, session="", actor="Bob" if number == CANDIDATES else "Ann")
            for number, text in enumerate(texts)
        ]
    )

    assert first(shelf, "Where is Bob's boat by the sea?") == CANDIDATES


@given(TEXTS, QUESTIONS, st.booleans(), st.integers(1, 5))
def test_entries_added_one_by_one_are_found_like_all_at_once(
    texts: Texts,
    question: list[str],
    has_vector: bool,  # noqa: FBT001
    size: int,
) -> None:
    entries, parts = entries_of(texts), asked(question, has_vector=has_vector)
    slowly = Shelf(axes=AXES)
    for at in range(0, len(entries), size):
        slowly.add(entries[at : at + size])
        slowly.add(entries[at : at + 1])
        slowly.search(parts, most=3)

    assert slowly.search(parts, most=20) == shelf_of(entries).search(parts, most=20)
    assert slowly.numbers.tolist() == list(range(len(entries)))


@pytest.mark.requirement("memory.forgotten-leaves-no-trace")
@given(TEXTS, QUESTIONS, st.booleans(), st.sets(st.integers(0, 11)))
def test_a_removed_entry_leaves_no_trace(
    texts: Texts,
    question: list[str],
    has_vector: bool,  # noqa: FBT001
    gone: set[int],
) -> None:
    entries, parts = entries_of(texts), asked(question, has_vector=has_vector)
    half = len(entries) // 2
    shelf = shelf_of(entries[:half])
    shelf.remove(number for number in gone if number < half)
    shelf.add(entries[half:])
    shelf.remove(gone)
    without = shelf_of([one for one in entries if one.number not in gone])

    assert len(shelf) == len(without)
    assert found(shelf, parts) == pytest.approx(found(without, parts), abs=1e-4)
    is_alike(seen(shelf, parts), seen(without, parts))


def test_what_comes_after_a_removed_end_of_a_session_stands_behind_what_is_left() -> None:
    texts = ["Where is the boat?", "Gone soon", "At the harbour"]
    entries = [entry(number, text) for number, text in enumerate(texts)]
    shelf = shelf_of(entries[:2])
    shelf.remove([1])
    shelf.add(entries[2:])
    parts = query_parts("Where is the boat?")

    is_alike(seen(shelf, parts), seen(shelf_of([entries[0], entries[2]]), parts))


@pytest.mark.requirement("memory.unseen-says-nothing")
@given(TEXTS, QUESTIONS, st.booleans(), st.sampled_from(["a", "b"]))
def test_what_may_not_be_seen_is_as_good_as_not_there(
    texts: Texts,
    question: list[str],
    has_vector: bool,  # noqa: FBT001
    hidden: str,
) -> None:
    entries, parts = entries_of(texts), asked(question, has_vector=has_vector)
    allowed = np.array([one.session != hidden for one in entries], dtype=np.bool_)
    alone = shelf_of([one for one in entries if one.session != hidden])

    assert found(shelf_of(entries), parts, allowed=allowed) == pytest.approx(
        found(alone, parts), abs=1e-4
    )
    is_alike(seen(shelf_of(entries), parts, allowed=allowed), seen(alone, parts))


@given(TEXTS, QUESTIONS, st.booleans())
def test_features_are_finite_numbers_of_every_candidate(
    texts: Texts,
    question: list[str],
    has_vector: bool,  # noqa: FBT001
) -> None:
    numbers, rows = shelf_of(entries_of(texts)).features(asked(question, has_vector=has_vector))

    assert rows.shape == (len(FEATURES) - (0 if has_vector else len(BY_MEANING)), numbers.size)
    assert np.isfinite(rows).all()
    assert np.abs(rows).max(initial=0) < 10


def test_a_part_ranks_by_how_rare_words_are_in_the_whole() -> None:
    entries = [entry(1, "red boat", session=""), entry(2, "red garden", session="")]
    background = Background(total=1000, mean_length=2, holders={"boat": 900, "garden": 2})
    part = Shelf(axes=AXES, background=background)
    part.add(entries)

    assert first(part, "boat garden") == 2


@pytest.mark.requirement("memory.found-in-any-text")
def test_however_many_words_are_asked_only_so_many_are_looked_at() -> None:
    shelf = shelf_of([entry(number, f"red boat{number}") for number in range(CANDIDATES + 50)])

    numbers, _ = shelf.features(query_parts(" ".join(["red", *map(str, range(100_000))])))

    assert numbers.size == CANDIDATES
    assert shelf.search(query_parts("nothing of the kind"), most=5) == []
    assert shelf.search(query_parts(""), most=5) == []
    assert Shelf(axes=0).search(query_parts("boat"), most=5) == []


def test_a_ranker_weighs_what_is_a_feature_with_finite_numbers() -> None:
    with pytest.raises(InvalidRankerError, match="colour"):
        LinearRanker(with_meaning={"colour": 1.0}, by_words={})
    with pytest.raises(InvalidRankerError, match="finite"):
        LinearRanker(with_meaning={"item": float("nan")}, by_words={})
    with pytest.raises(InvalidRankerError, match="near"):
        LinearRanker(with_meaning={}, by_words={"near": 1.0})
    assert PLAIN_RANKER.by_words["item"] == 1.0
