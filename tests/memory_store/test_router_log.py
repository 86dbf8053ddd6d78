"""The router's log on each database: late words, trusted ones, signs of tools, and its end."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from governor.ids import CallId, SessionId, TurnId
from governor.learning.verdict import Report, Source, Verdict
from memory_store.engine import Durability
from memory_store.errors import InvalidCursorError
from memory_store.router_log import LoggedDecision, RouterDecision, RouterLog, TurnSign
from memory_store.router_models import Taught
from memory_store.store import Store, open_store
from tests.memory_store.router_makers import decision, end, ends_of, report

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    url = request.getfixturevalue("database") if request.param == "postgresql" else None
    async with open_store(tmp_path / "state", url=url, durability=Durability.PROCESS) as store:
        yield store


async def logged(log: RouterLog) -> list[LoggedDecision]:
    return list((await log.page(limit=200)).items)


async def keep(log: RouterLog, *decisions: RouterDecision) -> None:
    """Keep choices whose calls were served."""
    await log.record(decisions, ends_of(decisions), ())


@pytest.mark.requirement("router.log-kept")
async def test_a_choice_is_kept_with_its_end_and_what_it_was_worth(kept: Store) -> None:
    log = kept.router_log
    made = decision("1", shadow_model="abc", shadow_tier="high", explored=True)

    await log.record((made,), (end("1"),), ())
    await log.report((report("1", 0.75),))

    (found,) = await logged(log)
    assert (found.decision, found.end) == (made, end("1"))
    assert found.verdict == Verdict(score=0.75, weight=0.5, is_trusted=False)
    assert found.learned is None


@pytest.mark.requirement("router.late-feedback")
async def test_a_word_that_came_before_its_choice_is_joined_to_it(kept: Store) -> None:
    log = kept.router_log
    await log.report((report("1", 0.25),))

    await keep(log, decision("1"), decision("2"))

    later, first = await logged(log)
    assert first.verdict == Verdict(score=0.25, weight=0.5, is_trusted=False)
    assert later.verdict is None
    assert [one.decision.call_id for one in await log.pending(since_ms=0, limit=9)] == ["call_1"]


@pytest.mark.requirement("router.feedback-weighed")
async def test_the_last_word_of_a_source_stands_and_a_trusted_one_overrides(kept: Store) -> None:
    log = kept.router_log
    await keep(log, decision("1"))

    for score in (0.0, 1.0, 1.0):
        await log.report((report("1", score),))
    (own,) = await logged(log)
    await log.report((report("1", 0.5, reported_by="admin:root", weight=1.0, is_trusted=True),))
    await log.report((report("1", 1.0, source=Source.TESTS),))

    (found,) = await logged(log)
    assert own.verdict == Verdict(score=1.0, weight=0.5, is_trusted=False)
    assert found.verdict == Verdict(score=0.5, weight=1.0, is_trusted=True)


async def test_what_was_recorded_twice_is_there_once(kept: Store) -> None:
    log = kept.router_log

    await keep(log, decision("1"), decision("2"))
    await keep(log, decision("2", policy="other"), decision("3"))

    assert [one.decision.policy for one in await logged(log)] == ["cold"] * 3


async def test_tools_tell_of_the_last_choice_of_their_turn_and_the_worst_stands(
    kept: Store,
) -> None:
    log, turn = kept.router_log, TurnId("t1")
    await keep(log, decision("1", at_ms=1), decision("2", at_ms=2), decision("3", turn=None))
    signs = [
        TurnSign(session=SessionId("ses_1"), turn=turn, score=score, weight=0.1, seen_at_ms=5)
        for score in (0.7, 0.3, 0.7)
    ]
    stranger = TurnSign(session=SessionId("ses_2"), turn=turn, score=0.1, weight=0.1, seen_at_ms=5)

    await log.record((), (), (*signs, stranger))

    verdicts = {one.decision.call_id: one.verdict for one in await logged(log)}
    assert verdicts == {
        "call_1": None,
        "call_2": Verdict(score=pytest.approx(0.3), weight=0.1, is_trusted=False),
        "call_3": None,
    }


async def test_pages_go_on_where_they_ended_and_only_rated_ones_are_shown(kept: Store) -> None:
    log = kept.router_log
    await keep(log, *(decision(str(n), at_ms=n // 2) for n in range(7)))
    await log.report((report("3", 1.0), report("6", 0.0)))

    first = await log.page(limit=4)
    second = await log.page(limit=4, cursor=first.next)
    rated = await log.page(is_rated=True)

    names = [one.decision.call_id for one in (*first.items, *second.items)]
    assert names == [f"call_{n}" for n in range(6, -1, -1)]
    assert second.next is None
    assert [one.decision.call_id for one in rated.items] == ["call_6", "call_3"]
    in_order = await log.rated(since_ms=0, limit=9)
    assert [one.decision.call_id for one in in_order] == ["call_3", "call_6"]
    with pytest.raises(InvalidCursorError):
        await log.page(cursor="nonsense")


async def test_how_often_tiers_were_chosen_and_rated_is_counted(kept: Store) -> None:
    log = kept.router_log
    await keep(log, decision("1"), decision("2", tier="high", explored=True), decision("3"))
    await log.report((report("1", 1.0),))

    high, low = await log.tally()

    assert (high.tier, high.chosen, high.rated, high.explored) == ("high", 1, 0, 1)
    assert (low.tier, low.chosen, low.rated, low.explored) == ("low", 2, 1, 0)


@pytest.mark.parametrize("status", ["denied", "upstream_failed", "limit_hit", "cancelled", None])
async def test_a_call_that_no_tier_served_is_no_lesson(kept: Store, status: str | None) -> None:
    log = kept.router_log
    await keep(log, decision("served", at_ms=1))
    ends = () if status is None else (end("not", status=status),)
    await log.record((decision("not", at_ms=2),), ends, ())
    await log.report((report("served", 1.0), report("not", 0.0)))

    found = [await log.pending(since_ms=0, limit=9), await log.rated(since_ms=0, limit=9)]

    assert [[one.decision.call_id for one in of] for of in found] == [["call_served"]] * 2
    assert await log.calls_of(SessionId("ses_1")) == ("call_served",)


async def test_the_latest_calls_of_a_session_are_found(kept: Store) -> None:
    log = kept.router_log
    await keep(log, decision("1", at_ms=1), decision("2", at_ms=2), decision("3", session="ses_2"))

    assert await log.calls_of(SessionId("ses_1")) == ("call_2", "call_1")


async def test_what_is_old_goes_with_what_was_said_of_it(kept: Store) -> None:
    log = kept.router_log
    await keep(log, decision("old", at_ms=1), decision("new", at_ms=5_000))
    await log.report((report("old", 1.0), report("new", 1.0), report("nowhere", 1.0)))

    removed = await log.remove(before_ms=4_000)

    assert removed == 1
    assert [one.decision.call_id for one in await logged(log)] == ["call_new"]
    await keep(log, decision("old", at_ms=6_000), decision("nowhere", at_ms=6_000))
    unrated = [one.decision.call_id for one in await logged(log) if one.verdict is None]
    assert sorted(unrated) == ["call_nowhere", "call_old"]


async def test_what_was_taught_is_no_longer_pending_until_somebody_says_otherwise(
    kept: Store,
) -> None:
    log, shelf = kept.router_log, kept.router_shelf
    await keep(log, decision("1"), decision("2"))
    await log.report((report("1", 1.0), report("2", 1.0)))
    pending = await log.pending(since_ms=0, limit=9)
    # Meanwhile somebody thinks again.
    await log.report((report("2", 0.0),))
    marks = tuple(
        Taught(call_id=CallId(name), score=1.0, weight=0.5, weight_taught=0.4, by="abc/0")
        for name in ("call_1", "call_2")
    )

    await shelf.learn(b"sums", marks, over=await shelf.standing(), now_ms=7)

    assert len(pending) == 2
    (again,) = await log.pending(since_ms=0, limit=9)
    assert again.decision.call_id == "call_2"
    assert again.learned_by == "abc/0"
    assert again.learned == Report(score=1.0, weight=0.4, is_trusted=False)
