"""Where writes are put: by who writes which way, never by what is asked for."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.search import LANES_ASKED
from governor.experience.trust import (
    Attempt,
    Corrected,
    Doubt,
    Way,
    decide,
    is_as_trusted,
    lanes_for,
)
from governor.ids import PrincipalId

ADA, BOB = PrincipalId("ada"), PrincipalId("bob")
NOTE = Attempt(way=Way.AGENT, writer=ADA, kind=ExperienceKind.OBSERVATION, saw_untrusted=False)
LANES = st.sampled_from(TrustLane)
ATTEMPTS = st.builds(
    Attempt,
    way=st.sampled_from(Way),
    writer=st.sampled_from((ADA, BOB)),
    kind=st.sampled_from(ExperienceKind),
    saw_untrusted=st.booleans(),
    sources=st.lists(st.one_of(st.none(), LANES), max_size=3).map(tuple),
    corrects=st.one_of(
        st.none(), st.builds(Corrected, lane=LANES, writer=st.sampled_from((ADA, BOB)))
    ),
    claimed=st.one_of(st.none(), LANES),
    is_signed=st.booleans(),
    stood=st.sampled_from(Standing),
)
OF_THE_HOUSE = frozenset({Way.OPERATOR, Way.ADOPTED, Way.USER})


@pytest.mark.requirement("memory.lane-by-way")
@pytest.mark.parametrize(
    ("way", "lane"),
    [
        (Way.OPERATOR, TrustLane.OPERATOR),
        (Way.ADOPTED, TrustLane.OPERATOR),
        (Way.USER, TrustLane.USER),
        (Way.AGENT, TrustLane.AGENT),
        (Way.HOUSE, TrustLane.AGENT),
        (Way.IMPORTED, TrustLane.AGENT),
        (Way.RESULT, TrustLane.TOOL),
        (Way.RESTORED, TrustLane.WEB),
    ],
)
def test_each_way_in_leads_to_its_lane(way: Way, lane: TrustLane) -> None:
    placed = decide(replace(NOTE, way=way))

    assert placed.lane is lane
    assert placed.standing is Standing.ACTIVE


@pytest.mark.requirement("memory.lane-by-way")
@pytest.mark.parametrize("way", [Way.AGENT, Way.RESULT, Way.HOUSE, Way.IMPORTED])
def test_a_session_that_saw_what_others_wrote_writes_as_strangers_do(way: Way) -> None:
    assert decide(replace(NOTE, way=way, saw_untrusted=True)).lane is TrustLane.WEB


def test_a_users_own_words_stay_its_own_whatever_the_session_has_read() -> None:
    assert decide(replace(NOTE, way=Way.USER, saw_untrusted=True)).lane is TrustLane.USER


@pytest.mark.requirement("memory.lane-by-way")
def test_what_is_derived_from_something_unknown_is_a_strangers() -> None:
    assert decide(replace(NOTE, sources=(TrustLane.OPERATOR, None))).lane is TrustLane.WEB


@pytest.mark.requirement("memory.lane-by-way")
@given(attempt=ATTEMPTS)
def test_nothing_derived_is_trusted_more_than_its_worst_source(attempt: Attempt) -> None:
    placed = decide(attempt)

    is_signed = attempt.way is Way.RESTORED and attempt.is_signed and attempt.claimed is not None
    if attempt.way is not Way.ADOPTED and not is_signed:
        for source in attempt.sources:
            assert is_as_trusted(source or TrustLane.WEB, placed.lane)


@pytest.mark.requirement("memory.only-the-house-instructs")
@given(attempt=ATTEMPTS)
def test_only_an_operators_and_a_users_ways_lead_to_a_lane_that_instructs(
    attempt: Attempt,
) -> None:
    if decide(attempt).lane.instructs and attempt.way not in OF_THE_HOUSE:
        assert attempt.way is Way.RESTORED
        assert attempt.is_signed


@pytest.mark.requirement("memory.lane-by-way")
@given(attempt=ATTEMPTS, claimed=st.one_of(st.none(), LANES))
def test_what_a_write_claims_never_makes_it_more_trusted(
    attempt: Attempt, claimed: TrustLane | None
) -> None:
    without = decide(replace(attempt, claimed=None))
    placed = decide(replace(attempt, claimed=claimed, is_signed=False))

    assert is_as_trusted(without.lane, placed.lane)


@pytest.mark.requirement("memory.vouched-files")
@given(attempt=ATTEMPTS, vouched=st.sampled_from((TrustLane.AGENT, TrustLane.TOOL)))
def test_who_vouches_for_a_file_gives_no_line_more_than_it_says_and_nothing_instructs(
    attempt: Attempt, vouched: TrustLane
) -> None:
    file = replace(attempt, way=Way.RESTORED, is_signed=False, vouched=vouched)

    placed = decide(file)

    for lane in (
        vouched,
        file.claimed or TrustLane.WEB,
        *(one or TrustLane.WEB for one in file.sources),
    ):
        assert is_as_trusted(lane, placed.lane)
    assert not placed.lane.instructs
    if file.stood is not Standing.ACTIVE:
        assert placed.standing is file.stood
    if file.claimed is not None and file.claimed.instructs:
        assert placed.standing is not Standing.ACTIVE


@pytest.mark.requirement("memory.quarantine")
def test_a_file_that_says_of_itself_that_it_instructs_waits_for_an_operator() -> None:
    placed = decide(replace(NOTE, way=Way.IMPORTED, claimed=TrustLane.OPERATOR, is_signed=True))

    assert placed.lane is TrustLane.AGENT
    assert placed.standing is Standing.QUARANTINED
    assert placed.doubts == (Doubt.CLAIMS,)


@pytest.mark.requirement("memory.quarantine")
def test_a_lesson_from_a_session_that_saw_what_others_wrote_waits() -> None:
    lesson = replace(NOTE, kind=ExperienceKind.LESSON)

    assert decide(lesson).standing is Standing.ACTIVE
    assert decide(replace(lesson, saw_untrusted=True)).doubts == (Doubt.TEACHES,)


@pytest.mark.requirement("memory.quarantine")
@pytest.mark.parametrize(
    "corrects",
    [
        Corrected(lane=TrustLane.AGENT, writer=BOB),
        Corrected(lane=TrustLane.WEB, writer=BOB),
        Corrected(lane=TrustLane.USER, writer=ADA),
    ],
)
def test_a_correction_of_somebody_else_or_of_what_is_trusted_more_waits(
    corrects: Corrected,
) -> None:
    placed = decide(replace(NOTE, corrects=corrects))

    assert placed.doubts == (Doubt.REPLACES,)
    assert not placed.supersedes


def test_a_correction_of_ones_own_counts_at_once() -> None:
    placed = decide(replace(NOTE, corrects=Corrected(lane=TrustLane.AGENT, writer=ADA)))

    assert placed.standing is Standing.ACTIVE
    assert placed.supersedes


def test_a_session_that_saw_what_others_wrote_corrects_nothing_that_was_noted_before() -> None:
    own = Corrected(lane=TrustLane.AGENT, writer=ADA)

    assert not decide(replace(NOTE, corrects=own, saw_untrusted=True)).supersedes


def test_an_operator_corrects_whatever_it_likes() -> None:
    own = Corrected(lane=TrustLane.USER, writer=BOB)

    assert decide(replace(NOTE, way=Way.OPERATOR, corrects=own)).supersedes


@given(attempt=ATTEMPTS)
def test_what_was_withdrawn_does_not_come_back_from_a_file(attempt: Attempt) -> None:
    if attempt.stood is not Standing.ACTIVE:
        assert decide(attempt).standing is attempt.stood


@pytest.mark.requirement("memory.quarantine")
@given(attempt=ATTEMPTS)
def test_what_waits_takes_nobodys_place(attempt: Attempt) -> None:
    placed = decide(attempt)

    assert (placed.standing is Standing.ACTIVE) == (
        attempt.stood is Standing.ACTIVE and not placed.doubts
    )
    assert not (placed.supersedes and placed.standing is not Standing.ACTIVE)
    assert not (placed.supersedes and attempt.corrects is None)


@pytest.mark.requirement("memory.lanes-asked")
def test_what_anybody_may_have_written_is_for_who_asks_or_has_seen_such_already() -> None:
    asked = (TrustLane.WEB, TrustLane.TOOL)

    assert lanes_for((), saw_untrusted=False) == LANES_ASKED
    assert lanes_for((), saw_untrusted=True) == tuple(TrustLane)
    assert lanes_for(asked, saw_untrusted=False) == asked
