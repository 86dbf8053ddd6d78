"""What stages make of the passages that were found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.experience.passages import (
    Passage,
    covering,
    further_words,
    nearly_once,
    once,
    packed,
    rarity_of,
    sentences_for,
)
from governor.experience.tokens import tokens_of


def passage(number: int, words: str, *, score: float = 1.0, tokens: int = 10) -> Passage:
    """Return a passage of these words, which are its content."""
    return Passage(
        number=number, score=score, address=words, words=tuple(words.split()), tokens=tokens
    )


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text, without their points."""
    return tuple(text.lower().replace(".", "").split())


@pytest.mark.requirement("memory.duplicates-named")
def test_the_same_content_is_shown_once_and_the_others_are_named() -> None:
    """What is left out says which one stands for it."""
    kept, left = once([passage(1, "a b"), passage(2, "a b"), passage(3, "c")])

    assert [one.number for one in kept] == [1, 3]
    assert [(one.passage.number, one.same_as) for one in left] == [(2, 1)]


@pytest.mark.requirement("memory.duplicates-named")
def test_what_says_nearly_the_same_is_shown_once() -> None:
    """Nearly the same is the same, too; something else is not."""
    words = " ".join(f"w{number}" for number in range(20))
    found = [passage(1, words), passage(2, words + " more"), passage(3, "something else")]

    kept, left = nearly_once(found)

    assert [one.number for one in kept] == [1, 3]
    assert [(one.passage.number, one.same_as) for one in left] == [(2, 1)]


@pytest.mark.requirement("memory.duplicates-named")
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 50)), max_size=40))
def test_nothing_is_dropped_without_a_word(found: list[tuple[str, int]]) -> None:
    """Whatever is found is shown, or is named as left out."""
    passages = [passage(at, word, tokens=size) for at, (word, size) in enumerate(found)]

    kept, left = nearly_once(passages)
    ordered = covering(("a", "b"), kept, most=5)
    fits = packed(ordered, tokens_max=60)

    named = [one.number for one in (*fits.shown, *fits.left_out, *(gone.passage for gone in left))]
    assert sorted(named) == [one.number for one in passages]
    assert fits.tokens == sum(one.tokens for one in fits.shown) <= 60


def test_words_to_search_again_are_what_the_best_have_in_common() -> None:
    """The words of the question are known already, and a word that all have tells nothing."""
    found = [
        passage(1, "ferry lisbon ticket said", score=9.0),
        passage(2, "ferry lisbon harbour said", score=8.0),
    ]
    others = [passage(number, f"garden{number} said", score=1.0) for number in range(3, 9)]

    again = further_words(("lisbon",), found, rarity_of([*found, *others]), most=3)

    assert again[0] == "ferry"
    assert "lisbon" not in again
    assert "said" not in again


def test_a_question_about_two_things_gets_something_about_both() -> None:
    """Coverage puts the second best beside something that it says nothing of."""
    found = [
        passage(1, "anna moved berlin", score=1.0),
        passage(2, "anna moved berlin again", score=0.95),
        passage(3, "boris moved rome", score=0.8),
        passage(4, "weather", score=0.1),
    ]

    ordered = covering(("anna", "boris"), found, most=4)

    assert [one.number for one in ordered[:2]] == [1, 3]
    assert sorted(one.number for one in ordered) == [1, 2, 3, 4]


def test_the_sentences_that_answer_are_taken_whole() -> None:
    """They stand in their order, byte for byte, and what is left out is marked."""
    text = "It rained a lot. The key is under the mat. We had tea. Then we went home again."

    said = sentences_for(text, ("key", "mat"), words_of, tokens_max=11)

    assert said == "… The key is under the mat. …"
    assert tokens_of(said) <= 11
    assert sentences_for(text, ("key",), words_of, tokens_max=100) == text


@pytest.mark.parametrize("text", ["", "x" * 500, "\u3042" * 99, "\n\n\n", "?" * 400])
def test_a_text_without_sentences_is_cut(text: str) -> None:
    """A bound holds whatever the text is made of."""
    assert tokens_of(sentences_for(text, ("x",), words_of, tokens_max=5)) <= 6
