"""The keys of a provider: who is next, who rests, who is out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.providing.failure import KeyFate
from governor.providing.key_ring import (
    OUT_TRIAL_MS,
    REST_MS_MAX,
    TRIAL_MS,
    KeyRing,
    KeyState,
    KeyTerms,
    Lent,
    NoneReady,
)


def ring(*names: str, rpm: int | None = None, tpm: int | None = None) -> KeyRing:
    return KeyRing(
        [KeyTerms(name=name, requests_per_minute=rpm, tokens_per_minute=tpm) for name in names]
    )


def lent(keys: KeyRing, now_ms: int = 0, *, tokens: int = 1, wished: int | None = None) -> Lent:
    use = keys.lend(now_ms, tokens=tokens, wished=wished)
    assert isinstance(use, Lent)
    return use


def test_the_key_with_the_fewest_calls_is_next_and_of_equals_the_one_unused_for_longest() -> None:
    keys = ring("A", "B", "C")

    uses = [lent(keys) for _ in range(3)]
    keys.give_back(uses[1], 0, fate=KeyFate.KEPT)
    least_loaded = lent(keys)

    assert [use.position for use in uses] == [0, 1, 2]
    assert least_loaded.position == 1


def test_idle_keys_take_turns() -> None:
    keys = ring("A", "B")
    used = []

    for _ in range(4):
        use = lent(keys)
        keys.give_back(use, 0, fate=KeyFate.KEPT)
        used.append(use.position)

    assert used == [0, 1, 0, 1]


def test_the_key_that_a_session_wishes_for_is_taken_while_it_is_ready() -> None:
    keys = ring("A", "B")
    uses = [lent(keys, wished=1), lent(keys, wished=1)]
    keys.give_back(uses[0], 0, fate=KeyFate.RESTS, rest_ms=1_000)

    assert [use.position for use in uses] == [1, 1]
    assert lent(keys, 999, wished=1).position == 0
    assert lent(keys, 1_000, wished=1).position == 1


def test_a_key_rests_for_its_own_time_while_the_others_go_on() -> None:
    keys = ring("A", "B")
    keys.give_back(lent(keys), 0, fate=KeyFate.RESTS, rest_ms=5_000)

    assert {lent(keys, 4_999).position for _ in range(3)} == {1}
    assert lent(keys, 5_000).position == 0


def test_when_all_rest_the_earliest_is_named() -> None:
    keys = ring("A", "B")
    keys.give_back(lent(keys), 0, fate=KeyFate.RESTS, rest_ms=9_000)
    keys.give_back(lent(keys), 0, fate=KeyFate.RESTS, rest_ms=4_000)

    assert keys.lend(1_000, tokens=1) == NoneReady(retry_after_ms=3_000)
    assert not keys.is_ready(3_999)
    assert keys.is_ready(4_000)


def test_an_answer_that_names_less_ends_no_longer_rest() -> None:
    keys = ring("A")
    first, second = lent(keys), lent(keys)
    keys.give_back(first, 0, fate=KeyFate.RESTS, rest_ms=9_000)
    keys.give_back(second, 0, fate=KeyFate.RESTS, rest_ms=10)

    assert keys.lend(0, tokens=1) == NoneReady(retry_after_ms=9_000)


def test_no_rest_is_longer_than_an_hour() -> None:
    keys = ring("A")
    keys.give_back(lent(keys), 0, fate=KeyFate.RESTS, rest_ms=10**15)

    assert keys.lend(0, tokens=1) == NoneReady(retry_after_ms=REST_MS_MAX)


def test_a_refused_key_stays_out_while_another_is_left() -> None:
    keys = ring("A", "B")
    keys.give_back(lent(keys), 0, fate=KeyFate.TAKEN_OUT)

    assert {lent(keys, OUT_TRIAL_MS - 1).position for _ in range(5)} == {1}
    assert [key.state for key in keys.shown(0)] == [KeyState.OUT, KeyState.READY]


def test_a_refused_key_is_tried_again_in_time_by_a_call_that_has_another() -> None:
    keys = ring("A", "B")
    keys.give_back(lent(keys), 0, fate=KeyFate.TAKEN_OUT)

    trial = lent(keys, OUT_TRIAL_MS)
    assert (trial.position, trial.is_trial) == (0, True)
    assert lent(keys, OUT_TRIAL_MS + 1).position == 1
    keys.give_back(trial, OUT_TRIAL_MS + 2, fate=KeyFate.TAKEN_OUT)

    again = lent(keys, 2 * OUT_TRIAL_MS + 2)
    assert again.is_trial
    keys.give_back(again, 2 * OUT_TRIAL_MS + 3, fate=KeyFate.KEPT)
    assert keys.shown(2 * OUT_TRIAL_MS + 3)[0].state is KeyState.READY


def test_a_call_that_failed_with_one_key_is_no_trial_of_another() -> None:
    keys = ring("A", "B", "C")
    keys.give_back(lent(keys), 0, fate=KeyFate.TAKEN_OUT)

    use = keys.lend(OUT_TRIAL_MS, tokens=1, without={1})
    assert isinstance(use, Lent)
    assert use.position == 2


def test_a_ring_whose_keys_are_all_refused_tries_one_now_and_then() -> None:
    keys = ring("A")
    keys.give_back(lent(keys), 0, fate=KeyFate.TAKEN_OUT)

    trial = lent(keys, 1)
    assert trial.is_trial
    assert not keys.is_ready(2)
    assert keys.lend(2, tokens=1) == NoneReady(retry_after_ms=None)
    keys.give_back(trial, 3, fate=KeyFate.TAKEN_OUT)
    assert keys.lend(TRIAL_MS, tokens=1) == NoneReady(retry_after_ms=None)

    assert keys.is_ready(TRIAL_MS + 1)
    keys.give_back(lent(keys, TRIAL_MS + 1), TRIAL_MS + 2, fate=KeyFate.KEPT)
    assert keys.is_ready(TRIAL_MS + 2)


def test_a_call_from_before_the_refusal_puts_no_key_back() -> None:
    keys = ring("A", "B")
    early, refused = lent(keys, wished=0), lent(keys, wished=0)
    keys.give_back(refused, 0, fate=KeyFate.TAKEN_OUT)
    keys.give_back(early, 1, fate=KeyFate.KEPT)

    assert keys.shown(1)[0].state is KeyState.OUT


def test_what_may_pass_in_a_minute_is_held_to() -> None:
    keys = ring("A", rpm=2)
    for _ in range(2):
        keys.give_back(lent(keys), 0, fate=KeyFate.KEPT)

    assert keys.lend(0, tokens=1) == NoneReady(retry_after_ms=30_000)
    assert isinstance(keys.lend(30_000, tokens=1), Lent)


def test_tokens_that_were_not_used_come_back() -> None:
    keys = ring("A", tpm=600)
    use = lent(keys, tokens=600)
    assert isinstance(keys.lend(0, tokens=100), NoneReady)

    keys.give_back(use, 0, fate=KeyFate.KEPT, tokens=50)

    assert isinstance(keys.lend(0, tokens=550), Lent)
    assert isinstance(keys.lend(0, tokens=1), NoneReady)


def test_a_call_of_more_tokens_than_a_minute_has_takes_the_whole_minute() -> None:
    keys = ring("A", tpm=600)

    use = lent(keys, tokens=10**6)

    assert use.tokens_held == 600


def test_a_use_of_which_nothing_was_sent_costs_nothing_and_says_nothing() -> None:
    keys = ring("A", tpm=600)
    keys.return_unused(lent(keys, tokens=600), 0)
    keys.give_back(lent(keys, tokens=600), 0, fate=KeyFate.TAKEN_OUT, tokens=0)
    trial = lent(keys, 1, tokens=1)
    keys.return_unused(trial, 2)

    assert keys.shown(2)[0].state is KeyState.OUT
    assert keys.shown(2)[0].in_flight == 0


@pytest.mark.parametrize("failed", [(), (0,), (0, 1)])
def test_a_key_that_failed_the_call_is_taken_only_where_no_other_is_ready(
    failed: tuple[int, ...],
) -> None:
    keys = ring("A", "B")

    use = keys.lend(0, tokens=1, without=failed)

    assert isinstance(use, Lent)
    assert use.position == (1 if failed == (0,) else 0)
    assert keys.has_another(0, tokens=1, without=failed) == (failed != (0, 1))


FATES = st.sampled_from(list(KeyFate))


@given(
    st.lists(
        st.tuples(
            st.booleans(),
            st.integers(min_value=0, max_value=20_000),
            FATES,
            st.none() | st.integers(min_value=-5, max_value=10**8),
        ),
        max_size=60,
    )
)
def test_whatever_happens_every_use_comes_back_and_no_minute_has_more_than_it_may(
    steps: list[tuple[bool, int, KeyFate, int | None]],
) -> None:
    keys = ring("A", "B", rpm=5)
    now_ms = 0
    under_way: list[Lent] = []
    lent_at: list[tuple[int, int]] = []

    for is_lend, passed_ms, fate, rest_ms in steps:
        now_ms += passed_ms
        use = keys.lend(now_ms, tokens=1) if is_lend else None
        if isinstance(use, Lent):
            under_way.append(use)
            # A trial of a refused key is one call in half a minute, whatever passed before.
            lent_at.extend([] if use.is_trial else [(use.position, now_ms)])
        elif not is_lend and under_way:
            keys.give_back(under_way.pop(), now_ms, fate=fate, rest_ms=rest_ms, tokens=1)

    assert sum(key.in_flight for key in keys.shown(now_ms)) == len(under_way)
    for position, since_ms in lent_at:
        within = [at for key, at in lent_at if key == position and 0 <= at - since_ms < 60_000]
        assert len(within) <= 2 * 5
