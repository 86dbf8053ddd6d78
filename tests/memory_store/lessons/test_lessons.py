"""Cases, playbooks and prepared answers on each database."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from governor.experience.cases import ReadCase
from governor.experience.kinds import TrustLane
from governor.experience.playbook import Delta, adding, linking, retiring, voting
from governor.ids import (
    CallId,
    ExperienceId,
    NamespaceId,
    PrincipalId,
    SessionId,
    TaskClass,
    TenantId,
)
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.errors import NotFoundError, VersionConflictError
from memory_store.lessons import playbooks
from memory_store.lessons.cases import CaseOutcome, CaseRead
from memory_store.lessons.forgetting import forget_experiences
from memory_store.lessons.playbooks import KeptPlaybook
from memory_store.lessons.questions import Prepared, Question, QuietWork
from memory_store.store import Store, open_store

pytestmark = pytest.mark.anyio

ACME, GLOBEX = TenantId("acme"), TenantId("globex")
OWN, CLASS = NamespaceId("ns_1"), TaskClass("refunds")
ONE, TWO = ExperienceId("exp_one"), ExperienceId("exp_two")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def kept(request: pytest.FixtureRequest, begun_state: Path) -> AsyncIterator[Store]:
    url = request.getfixturevalue("database") if request.param == "postgresql" else None
    async with open_store(begun_state, url=url, durability=Durability.PROCESS) as store:
        yield store


def read(
    choice: str, case: ExperienceId = ONE, *, tenant: TenantId = ACME, at_ms: int = 1
) -> CaseRead:
    return CaseRead(
        choice=CallId(choice),
        case=case,
        tenant=tenant,
        reader=PrincipalId("ada"),
        session=SessionId("ses_1"),
        task_class=CLASS,
        sketch=b"\x01\x02",
        slot=0,
        propensity=0.25,
        explored=True,
        read=ReadCase(
            features=(1.0, 0.5, -0.25), base=0.4, linear=0.1, own=0.0, share=0.5, read_at_ms=at_ms
        ),
    )


def outcome(score: float, **more: object) -> CaseOutcome:
    said = CaseOutcome(session=SessionId("ses_1"), score=score, weight=0.5, is_trusted=False)
    return replace(said, **more)  # type: ignore[arg-type]


@pytest.mark.requirement("cases.propensity")
async def test_reads_are_kept_once_with_all_that_their_lesson_needs(kept: Store) -> None:
    await kept.cases.record((read("c1"), read("c1", TWO)))
    await kept.cases.record((replace(read("c1"), propensity=1.0), read("c2", at_ms=2)))

    assert await kept.cases.readers_of((ONE, TWO), tenant=ACME) == {}
    told = await kept.cases.report(outcome(1.0))

    found = await kept.cases.readers_of((ONE, TWO), tenant=ACME)
    assert told == 3
    assert [one.about for one in found[ONE]] == [read("c2", at_ms=2), read("c1")]
    assert [(one.score, one.weight) for one in found[TWO]] == [(1.0, 0.5)]
    assert await kept.cases.readers_of((ONE, TWO), tenant=GLOBEX) == {}


async def test_a_trusted_word_stands_and_one_case_can_be_rated_alone(kept: Store) -> None:
    await kept.cases.record((read("c1"), read("c1", TWO)))
    await kept.cases.report(outcome(1.0, is_trusted=True, cases=(ONE,), weight=1.0))
    await kept.cases.report(outcome(0.0))
    await kept.cases.report(outcome(0.25, session=SessionId("ses_2")))

    found = await kept.cases.readers_of((ONE, TWO), tenant=ACME)

    assert {case: one.score for case, (one,) in found.items()} == {ONE: 1.0, TWO: 0.0}


async def test_what_was_learned_is_pending_no_more_until_something_else_is_said(
    kept: Store,
) -> None:
    await kept.cases.record((read("c1"),))
    await kept.cases.report(outcome(1.0))
    first = await kept.cases.pending(limit=9)

    revision = await kept.cases.learn(b"model", first, tenant=ACME, over=0, now_ms=5)
    after = await kept.cases.pending(limit=9)
    await kept.cases.report(outcome(1.0))
    same = await kept.cases.pending(limit=9)
    await kept.cases.report(outcome(0.0))
    (other,) = await kept.cases.pending(limit=9)

    assert (revision, after, same) == (1, (), ())
    assert (other.score, other.learned_score, other.learned_weight) == (0.0, 1.0, 0.5)
    assert (await kept.cases.model(ACME)).learned == b"model"
    assert (await kept.cases.model(GLOBEX)).revision == 0
    with pytest.raises(VersionConflictError):
        await kept.cases.learn(b"late", (), tenant=ACME, over=0, now_ms=6)


async def test_old_reads_are_removed_and_late_ones_stay(kept: Store) -> None:
    await kept.cases.record((read("c1", at_ms=1), read("c2", at_ms=9)))
    await kept.cases.report(outcome(1.0))

    assert await kept.cases.remove(before_ms=5) == 1

    found = await kept.cases.readers_of((ONE,), tenant=ACME)
    assert [one.about.choice for one in found[ONE]] == ["c2"]


def said(text: str, *, source: ExperienceId = ONE, at_ms: int = 1) -> Delta:
    return adding(
        text, section="s", lane=TrustLane.TOOL, at_ms=at_ms, by="house", sources=(source,)
    )


async def merge(kept: Store, *deltas: Delta, tenant: TenantId = ACME) -> playbooks.Merged:
    return await kept.playbooks.merge(
        deltas, tenant=tenant, namespace=OWN, task_class=CLASS, now_ms=7
    )


async def book(kept: Store, tenant: TenantId = ACME) -> KeptPlaybook:
    return await kept.playbooks.get(tenant, OWN, CLASS)


@pytest.mark.requirement("playbook.versions")
async def test_deltas_make_versions_and_those_that_are_known_make_none(kept: Store) -> None:
    one, two = said("retry once"), said("read the log")
    vote = voting(one.bullet, is_helpful=True, at_ms=2, by="ada")

    first = await merge(kept, one, two, linking(one.bullet, two.bullet, at_ms=1, by="house"))
    again = await merge(kept, one, vote, vote)
    third = await merge(kept, one, vote)

    found = await book(kept)
    assert (first.version, first.added) == (1, 3)
    assert (again.version, again.added, again.known) == (2, 1, 2)
    assert (third.version, third.added, third.known) == (2, 0, 2)
    assert found.version == await kept.playbooks.version(ACME, OWN, CLASS) == 2
    assert [(b.text, b.helpful, b.links) for b in found.playbook.shown] == [
        ("retry once", 1, {two.bullet}),
        ("read the log", 0, {one.bullet}),
    ]
    assert (await book(kept, GLOBEX)).playbook.shown == ()
    assert [one.version for one in await kept.playbooks.all(ACME)] == [2]
    assert await kept.playbooks.all(GLOBEX) == ()


@pytest.mark.requirement("playbook.versions")
async def test_a_playbook_goes_back_to_a_version_and_from_there_forward_again(kept: Store) -> None:
    one, two = said("retry once"), said("guess")
    await merge(kept, one)
    await merge(kept, two, retiring(one.bullet, at_ms=3, by="x", why=""))
    as_of_two = (await book(kept)).playbook.shown

    async def back(to_version: int, expected: int) -> KeptPlaybook:
        return await kept.playbooks.rollback(
            tenant=ACME,
            namespace=OWN,
            task_class=CLASS,
            to_version=to_version,
            expected=expected,
            by=Actor(name="root"),
            now_ms=9,
        )

    first = await back(1, 2)
    forward = await back(2, 3)
    none = await back(0, 4)

    assert (first.version, [b.text for b in first.playbook.shown]) == (3, ["retry once"])
    assert (forward.version, forward.playbook.shown) == (4, as_of_two)
    assert none.playbook.shown == ()
    assert [(v.version, v.deltas, v.undone) for v in await history(kept)] == [(2, 2, 2), (1, 1, 1)]
    with pytest.raises(VersionConflictError):
        await back(1, 4)
    with pytest.raises(NotFoundError):
        await back(17, 5)


async def history(kept: Store) -> tuple[playbooks.PlaybookVersion, ...]:
    return await kept.playbooks.history(ACME, OWN, CLASS)


async def test_many_deltas_are_summed_up_and_a_full_playbook_takes_no_more_bullets(
    kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(playbooks, "DELTAS_MAX", 10)
    monkeypatch.setattr(playbooks, "BULLETS_MAX", 2)
    one, two, three = said("a"), said("b"), said("c")
    await merge(kept, one, two)

    full = await merge(kept, three)
    for n in range(15):
        vote = voting(one.bullet, is_helpful=True, at_ms=n, by=f"agent-{n}")
        await merge(kept, vote)

    found = await book(kept)
    assert (full.added, full.refused) == (0, 1)
    assert {b.text: b.helpful for b in found.playbook.shown} == {"a": 15, "b": 0}
    assert 0 < found.folded_until < found.version
    assert sum(v.deltas for v in await history(kept)) <= 11


@pytest.mark.requirement("lessons.forgotten-with-sources")
async def test_what_is_erased_takes_along_what_was_learned_of_it(kept: Store) -> None:
    mine, both = said("only of one"), said("of both")
    await merge(kept, mine, both, said("of both", source=TWO, at_ms=2))
    await merge(kept, said("globex has it too"), tenant=GLOBEX)
    await kept.cases.record((read("c1"), read("c1", TWO)))
    await kept.cases.report(outcome(1.0))
    await ask(kept, "q1")
    await kept.questions.answered(ACME, "q1", prepared(sources=(TWO, ONE)))

    await kept.writer.run(lambda connection: forget_experiences(connection, ACME, (ONE,)))

    assert [b.text for b in (await book(kept)).playbook.shown] == ["of both"]
    assert [b.text for b in (await book(kept, GLOBEX)).playbook.shown] == ["globex has it too"]
    assert set(await kept.cases.readers_of((ONE, TWO), tenant=ACME)) == {TWO}
    assert await kept.questions.prepared(ACME, "q1") is None


def question(name: str, *, tenant: TenantId = ACME, at_ms: int = 1) -> Question:
    return Question(
        tenant=tenant,
        question=name,
        words="how are refunds made",
        namespaces=(OWN,),
        filters="{}",
        tokens=900,
        asked_at_ms=at_ms,
    )


def prepared(*, sources: tuple[ExperienceId, ...] = (ONE,)) -> Prepared:
    return Prepared(
        answer=ExperienceId("exp_answer"),
        sources=sources,
        answer_tokens=100,
        searched_tokens=900,
        answered_at_ms=5,
        head=3,
    )


async def ask(kept: Store, *names: str, times: int = 1) -> None:
    for _ in range(times):
        await kept.questions.note(tuple(question(name) for name in names))


@pytest.mark.requirement("quiet.accounted")
async def test_questions_recur_are_answered_beforehand_and_what_that_saves_is_counted(
    kept: Store,
) -> None:
    await ask(kept, "q1", times=3)
    await ask(kept, "q2")

    due = await kept.questions.recurring(asked_min=2, most=9)
    await kept.questions.answered(ACME, "q1", prepared())
    await kept.questions.served(ACME, "q1", saved=800, now_ms=9)
    await kept.questions.note_work(
        QuietWork(
            call_id=CallId("call_1"),
            tenant=ACME,
            work="answer",
            began_at_ms=4,
            wall_ms=20,
            tokens=950,
            cost_microusd=12,
            made=1,
        )
    )

    assert [(one.about, one.asked) for one in due] == [(question("q1"), 3)]
    assert await kept.questions.prepared(ACME, "q1") == prepared()
    assert await kept.questions.prepared(GLOBEX, "q1") is None
    assert await kept.questions.recurring(asked_min=2, most=9) == ()
    figures = await kept.questions.figures(ACME)
    assert (figures.works, figures.made, figures.tokens, figures.cost_microusd) == (1, 1, 950, 12)
    assert (figures.served, figures.tokens_saved) == (1, 800)
    assert (await kept.questions.figures(GLOBEX)).works == 0
    await kept.questions.drop(ACME, "q1")
    assert await kept.questions.prepared(ACME, "q1") is None


async def test_questions_that_nobody_asks_any_more_go(
    kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_store.lessons.questions.QUESTIONS_MAX", 2)
    for n in range(4):
        await kept.questions.note((question(f"q{n}", at_ms=n),))

    left = await kept.questions.recurring(asked_min=1, most=9)
    removed = await kept.questions.remove(before_ms=3)

    assert {one.about.question for one in left} == {"q2", "q3"}
    assert removed == 1
