"""What enters a bank that a team shares."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.experience.kinds import ExperienceKind, TrustLane
from governor.experience.sharing import (
    AXES,
    Entry,
    EntryCredit,
    EntryOutcome,
    Offer,
    SharingTerms,
    context_of,
    decided,
    is_withdrawn,
    nothing_known,
    record_of,
    taught,
    worth_of,
)
from governor.ids import ExperienceId, PrincipalId

ANNA, BORIS = PrincipalId("anna"), PrincipalId("boris")
OFFER = Offer(
    experience=ExperienceId("exp_1"),
    writer=ANNA,
    kind=ExperienceKind.TOOL_RESULT,
    lane=TrustLane.TOOL,
    novelty=0.9,
    tokens=300,
    cost_microusd=2_000,
)
NOTE = replace(OFFER, writer=BORIS, kind=ExperienceKind.DECISION, lane=TrustLane.AGENT)
TERMS = SharingTerms(explored=0.0)
HELPED, IN_THE_WAY = EntryCredit(helped=2), EntryCredit(failed=1, unread=20)
COUNTS = st.integers(0, 50)
CREDITS = st.builds(EntryCredit, helped=COUNTS, failed=COUNTS, unread=COUNTS, redone=COUNTS)


def usage(offer: Offer, credit: EntryCredit, *, entered: bool = True) -> EntryOutcome:
    """Return what became of an offer."""
    context = context_of(offer, nothing_known("salt"))
    return EntryOutcome(context=context, writer=offer.writer, entered=entered, credit=credit)


def test_an_empty_bank_lets_things_in() -> None:
    """Who shares nothing learns nothing."""
    state = nothing_known("salt")

    assert decided(OFFER, state, TERMS).entry is Entry.ENTERS
    assert len(context_of(OFFER, state)) == AXES


@pytest.mark.requirement("memory.sharing-learned")
def test_what_helped_others_enters_and_what_was_in_the_way_stays() -> None:
    """It is learned from use what the others shall find."""
    state = taught(nothing_known("salt"), (usage(OFFER, HELPED), usage(NOTE, IN_THE_WAY)) * 20)

    assert decided(OFFER, state, TERMS).entry is Entry.ENTERS
    assert decided(NOTE, state, TERMS).entry is Entry.STAYS
    assert record_of(ANNA, state) > 2 * record_of(BORIS, state)


@pytest.mark.requirement("memory.sharing-learned")
def test_work_that_was_done_again_speaks_for_what_stayed() -> None:
    """A decision against sharing is corrected by what it cost."""
    cold = taught(nothing_known("salt"), (usage(OFFER, IN_THE_WAY),) * 20)
    assert decided(OFFER, cold, TERMS).entry is Entry.STAYS

    warm = taught(cold, (usage(OFFER, EntryCredit(redone=3), entered=False),) * 60)

    assert decided(OFFER, warm, TERMS).entry is Entry.ENTERS


def test_silence_about_what_stayed_teaches_nothing() -> None:
    """Nobody knows what it would have been worth."""
    state = nothing_known("salt")

    assert (
        taught(state, (usage(OFFER, EntryCredit(), entered=False),)).bandit.evidence("enter") == 0.0
    )


@pytest.mark.requirement("memory.sharing-links")
def test_the_same_content_is_linked_and_never_dropped() -> None:
    """What the bank has already is found there; the writer keeps its own."""
    again = replace(OFFER, same_as=ExperienceId("exp_0"))

    assert decided(again, nothing_known("salt"), TERMS).entry is Entry.LINKED


@pytest.mark.requirement("memory.sharing-deterministic")
@given(st.text(max_size=20), st.floats(0, 1))
def test_a_decision_is_the_same_for_the_same_state(salt: str, explored: float) -> None:
    """The dice are in the state, so a decision can be repeated."""
    state = nothing_known(salt)
    terms = SharingTerms(explored=explored)

    one, other = decided(OFFER, state, terms), decided(OFFER, state, terms)

    assert (one.entry, one.propensity, one.dice) == (other.entry, other.propensity, other.dice)
    assert 0.0 <= one.dice < 1.0
    assert 0.0 < one.propensity <= 1.0


@pytest.mark.requirement("memory.sharing-explores")
def test_its_share_of_decisions_is_explored_with_the_chance_that_is_logged() -> None:
    """What is logged as a chance is how often it happens."""
    state = taught(nothing_known("salt"), (usage(NOTE, IN_THE_WAY),) * 20)
    terms = SharingTerms(explored=0.2)
    found = []
    for number in range(2_000):
        offer = replace(NOTE, experience=ExperienceId(f"exp_{number}"))
        found.append(decided(offer, state, terms))

    tried = [one for one in found if one.entry is Entry.ENTERS]

    assert all(one.explored for one in tried)
    assert len(tried) / len(found) == pytest.approx(tried[0].propensity, abs=0.03)


@given(st.lists(CREDITS, min_size=1, max_size=6))
def test_what_is_learned_late_takes_the_place_of_what_was_learned_before(
    told: list[EntryCredit],
) -> None:
    """However often the use of something is told anew, only the last word counts."""
    begun = nothing_known("salt")
    state, before = begun, None
    for credit in told:
        state = taught(state, (replace(usage(OFFER, credit), before=before),))
        before = credit

    direct = taught(begun, (usage(OFFER, told[-1]),))

    context = context_of(OFFER, begun)
    known, wanted = (one.bandit.expected(context, ["enter"]) for one in (state, direct))
    assert np.allclose(known.mean, wanted.mean, atol=1e-6)


@given(CREDITS)
def test_what_something_is_worth_is_bounded_and_grows_with_its_help(credit: EntryCredit) -> None:
    """Nobody is credited without bound, however often it reads its friends' notes."""
    more = replace(credit, helped=credit.helped + 1)

    assert -1.0 <= worth_of(credit) <= worth_of(more) <= 1.0


@pytest.mark.requirement("memory.sharing-learned")
def test_what_misleads_leaves_the_bank_again() -> None:
    """To have entered once is no right to stay."""
    assert is_withdrawn(0.5, EntryCredit(failed=3), SharingTerms())
    assert is_withdrawn(0.2, EntryCredit(unread=100), SharingTerms())
    assert not is_withdrawn(0.5, EntryCredit(helped=2, failed=1, unread=10), SharingTerms())
