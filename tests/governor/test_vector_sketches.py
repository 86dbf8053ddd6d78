import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.retrieval.sketches import Sketches
from governor.retrieval.vectors import StaticVectors
from runtime.word_vectors import word_vectors

AXES = 256


def _near_topics(count: int, *, seed: int = 0) -> np.ndarray:
    """Return vectors as texts have them: a few pieces' sums, many with pieces in common."""
    chance = np.random.default_rng(seed)
    pieces = _pieces(word_vectors())
    topics = chance.integers(len(pieces), size=(count // 20 + 1, 8))
    own = np.repeat(topics, 20, axis=0)[:count]
    chosen = np.take_along_axis(own, chance.integers(8, size=(count, 5)), axis=1)
    made = pieces[chosen].sum(axis=1) + pieces[chance.integers(len(pieces), size=(count, 6))].sum(1)
    return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), dtype=np.float32)


def _pieces(vectors: StaticVectors) -> np.ndarray:
    words = ["river", "bank", "loan", "cat", "dog", "car", "train", "music", "paint"]
    words += ["code", "test", "build", "ship", "pay", "invoice"]
    words += [f"{one}{other}" for one in words for other in words[:9]]
    return np.stack([vectors.embed(word) for word in words])


def _sketched(vectors: np.ndarray) -> Sketches:
    sketches = Sketches(axes=vectors.shape[1])
    for begin in range(0, len(vectors), 700):
        sketches.add(vectors[begin : begin + 700])
    return sketches


@pytest.mark.requirement("memory.sketch-recall")
def test_nearly_all_of_the_nearest_are_among_those_that_sketches_tell() -> None:
    vectors = _near_topics(20_000)
    sketches = _sketched(vectors)

    shares = []
    for query in _near_topics(40, seed=1):
        truly = np.argpartition(-(vectors @ query), 10)[:10]
        shares.append(np.isin(truly, sketches.nearest(query, most=400)).mean())

    assert np.mean(shares) >= 0.98


def test_only_what_is_allowed_is_returned_however_far_it_is() -> None:
    vectors = _near_topics(6_000)
    sketches = _sketched(vectors)
    few = np.zeros(6_000, dtype=np.bool_)
    few[[17, 4_711]] = True
    most = np.ones(6_000, dtype=np.bool_)
    most[:10] = False

    assert sketches.nearest(vectors[0], most=10, allowed=few).tolist() == [17, 4_711]
    assert not set(sketches.nearest(vectors[0], most=100, allowed=most).tolist()) & set(range(10))


def test_a_vector_is_the_nearest_to_itself_until_it_is_removed() -> None:
    vectors = _near_topics(9_000)
    sketches = _sketched(vectors)
    assert 4_321 in sketches.nearest(vectors[4_321], most=5)

    sketches.remove(4_321)

    assert 4_321 not in sketches.nearest(vectors[4_321], most=5)


@given(
    axes=st.integers(1, 130),
    count=st.integers(0, 40),
    most=st.integers(1, 50),
    seed=st.integers(0, 2**32 - 1),
)
def test_any_number_of_any_vectors_has_its_nearest(
    axes: int, count: int, most: int, seed: int
) -> None:
    chance = np.random.default_rng(seed)
    vectors = chance.standard_normal((count, axes)).astype(np.float32)
    vectors[: count // 3] = 0
    sketches = _sketched(vectors)

    found = sketches.nearest(np.asarray(-vectors.sum(axis=0)), most=most)

    assert len(set(found.tolist())) == found.size == min(most, count)
    assert all(0 <= place < count for place in found.tolist())


def test_what_differs_in_every_bit_is_far_and_not_near() -> None:
    vectors = np.ones((5_000, AXES), dtype=np.float32)
    vectors[1:] *= -1

    near = _sketched(vectors).nearest(vectors[0], most=1)

    assert near.tolist() == [0]
