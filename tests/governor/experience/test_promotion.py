"""Who may change where an experience stands."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.experience.kinds import Standing, TrustLane
from governor.experience.promotion import (
    Adopted,
    Asker,
    Quorum,
    Refusal,
    Stands,
    Stays,
    Vote,
    Whereto,
    promote,
    withdraw,
)
from governor.ids import ExperienceId, PrincipalId
from tests.governor.experience.makers import Said, experience

OPERATOR = Asker(principal=PrincipalId("root"), is_operator=True)
AGENT = Asker(principal=PrincipalId("eve"))
WAITING = experience(Said(standing=Standing.QUARANTINED, lane=TrustLane.WEB, writer="eve"))


def vote(reader: str, outcome: float = 1.0, *, saw_untrusted: bool = False) -> Vote:
    return Vote(reader=PrincipalId(reader), outcome=outcome, saw_untrusted=saw_untrusted)


THREE = (vote("ada"), vote("bob"), vote("cid"))
VOTES = st.lists(
    st.builds(
        Vote,
        reader=st.sampled_from(("ada", "bob", "cid", "dan", "eve")).map(PrincipalId),
        outcome=st.floats(0, 1),
        saw_untrusted=st.booleans(),
    ),
    max_size=12,
).map(tuple)
ANY = st.builds(
    Said,
    lane=st.sampled_from(TrustLane),
    standing=st.sampled_from(Standing),
    writer=st.sampled_from(("ada", "eve")),
    supersedes=st.sampled_from((None, ExperienceId("exp_0"))),
)


@pytest.mark.requirement("memory.only-the-house-instructs")
@given(said=ANY, votes=VOTES)
def test_nobody_but_an_operator_makes_anything_an_instruction(
    said: Said, votes: tuple[Vote, ...]
) -> None:
    got = promote(experience(said), Whereto.INSTRUCTION, asker=AGENT, votes=votes)

    assert isinstance(got, Stays)


@pytest.mark.requirement("memory.only-the-house-instructs")
@given(said=ANY, votes=VOTES)
def test_votes_bring_nothing_into_a_lane_that_instructs(
    said: Said, votes: tuple[Vote, ...]
) -> None:
    got = promote(experience(said), Whereto.EVIDENCE, asker=AGENT, votes=votes)

    assert not isinstance(got, Adopted)
    if isinstance(got, Stands):
        assert not said.lane.instructs
        assert not got.supersedes


def test_an_operator_adopts_what_is_to_instruct_into_its_own_lane() -> None:
    got = promote(WAITING, Whereto.INSTRUCTION, asker=OPERATOR)

    assert got == Adopted(lane=TrustLane.OPERATOR)


def test_an_operator_lets_out_what_waits_with_what_it_corrects() -> None:
    said = Said(standing=Standing.QUARANTINED, supersedes=ExperienceId("exp_0"))

    assert promote(WAITING, Whereto.EVIDENCE, asker=OPERATOR) == Stands(standing=Standing.ACTIVE)
    assert promote(experience(said), Whereto.EVIDENCE, asker=OPERATOR) == Stands(
        standing=Standing.ACTIVE, supersedes=True
    )


@pytest.mark.requirement("memory.quarantine")
def test_enough_agents_that_did_well_with_it_let_out_what_waits() -> None:
    got = promote(WAITING, Whereto.EVIDENCE, asker=AGENT, votes=THREE)

    assert got == Stands(standing=Standing.ACTIVE)


@pytest.mark.requirement("memory.quarantine")
@pytest.mark.parametrize(
    ("votes", "refusal"),
    [
        (THREE[:2], Refusal.NO_QUORUM),
        ((vote("ada"), vote("ada"), vote("ada"), vote("bob")), Refusal.NO_QUORUM),
        ((*THREE[:2], vote("eve")), Refusal.NO_QUORUM),
        ((*THREE[:2], vote("cid", saw_untrusted=True)), Refusal.NO_QUORUM),
        ((*THREE[:2], vote("cid", 0.5)), Refusal.NO_QUORUM),
        ((*THREE, vote("dan", 0.1)), Refusal.HARMED),
        ((*THREE, vote("ada", 0.0)), Refusal.HARMED),
        ((*THREE, vote("dan", 0.0, saw_untrusted=True)), Refusal.HARMED),
    ],
)
def test_neither_few_nor_the_writer_nor_the_misled_are_a_quorum(
    votes: tuple[Vote, ...], refusal: Refusal
) -> None:
    assert promote(WAITING, Whereto.EVIDENCE, asker=AGENT, votes=votes) == Stays(refusal=refusal)


def test_no_quorum_replaces_what_somebody_wrote() -> None:
    said = Said(standing=Standing.QUARANTINED, supersedes=ExperienceId("exp_0"), writer="eve")
    got = promote(experience(said), Whereto.EVIDENCE, asker=AGENT, votes=THREE)

    assert got == Stays(refusal=Refusal.FOR_AN_OPERATOR)


@given(votes=VOTES, readers_min=st.integers(1, 5))
def test_a_further_bad_outcome_never_lets_anything_out(
    votes: tuple[Vote, ...], readers_min: int
) -> None:
    quorum = Quorum(readers_min=readers_min)
    worse = (*votes, vote("fay", 0.0))

    got = promote(WAITING, Whereto.EVIDENCE, asker=AGENT, votes=worse, quorum=quorum)

    assert got == Stays(refusal=Refusal.HARMED)


@pytest.mark.parametrize("standing", [Standing.REVOKED, Standing.SUPERSEDED])
@pytest.mark.parametrize("whereto", Whereto)
def test_what_was_withdrawn_or_corrected_is_not_promoted(
    standing: Standing, whereto: Whereto
) -> None:
    got = promote(experience(Said(standing=standing)), whereto, asker=OPERATOR)

    assert got == Stays(refusal=Refusal.OVER)


@pytest.mark.requirement("memory.writers-withdraw-their-own")
def test_a_writer_withdraws_its_own_and_nobody_elses() -> None:
    own, others = Said(writer="eve"), Said(writer="ada")
    revoked = Stands(standing=Standing.REVOKED)
    refused = Stays(refusal=Refusal.NOT_AN_OPERATOR)

    assert withdraw(experience(own), Standing.REVOKED, asker=AGENT) == revoked
    assert withdraw(experience(others), Standing.REVOKED, asker=AGENT) == refused
    assert withdraw(experience(others), Standing.REVOKED, asker=OPERATOR) == revoked


@pytest.mark.requirement("memory.writers-withdraw-their-own")
def test_a_session_that_saw_what_others_wrote_withdraws_nothing_noted_before() -> None:
    misled = replace(AGENT, saw_untrusted=True)
    noted = experience(Said(writer="eve", lane=TrustLane.AGENT))
    told = experience(Said(writer="eve", lane=TrustLane.WEB))

    assert isinstance(withdraw(noted, Standing.REVOKED, asker=misled), Stays)
    assert isinstance(withdraw(told, Standing.REVOKED, asker=misled), Stands)


@given(said=ANY)
def test_no_agent_withdraws_what_instructs(said: Said) -> None:
    if said.lane.instructs:
        got = withdraw(experience(said), Standing.REVOKED, asker=AGENT)

        assert isinstance(got, Stays)


def test_nothing_is_withdrawn_into_being_found() -> None:
    got = withdraw(experience(Said()), Standing.ACTIVE, asker=OPERATOR)

    assert isinstance(got, Stays)
