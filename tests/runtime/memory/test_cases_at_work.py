"""Cases as agents get them: chosen by worth, logged, and learned of from outcomes."""

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from governor.call import CallStatus
from governor.experience.guidance import Guidance
from governor.experience.kinds import ExperienceKind
from governor.experience.search import Found
from governor.ids import NamespaceId, SessionId
from governor.learning.verdict import Reporter
from memory_store.errors import StoreUnavailableError
from memory_store.store import Store
from runtime.memory.lessons.case_file import unpacked
from runtime.memory.lessons.cases import CaseDesk
from tests.runtime.memory.lesson_makers import (
    AGENT,
    CLASS,
    TENANT,
    call,
    ended,
    opened,
    put,
    searching,
)
from tests.tool_gateway.makers import FakeClock

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(begun_state: Path) -> AsyncIterator[tuple[Store, NamespaceId]]:
    async with opened(begun_state) as found:
        yield found


def desk(store: Store, *, book: object | None = None) -> CaseDesk:
    return CaseDesk(
        store.cases if book is None else book,  # type: ignore[arg-type]
        store.experience_search.search,
        clock=FakeClock(),
        class_of=lambda _, asked: asked or CLASS,
        dice=np.random.default_rng(1),
    )


async def two_cases(store: Store, space: NamespaceId) -> tuple[str, str]:
    """Write a case that is all about a question, and one that is less so."""
    near = await put(
        store,
        space,
        "near",
        "refund for a late order: refund the order at once",
        kind=ExperienceKind.CASE,
        outcome=1.0,
    )
    far = await put(
        store,
        space,
        "far",
        "order was late and a person was asked before the money went back",
        kind=ExperienceKind.CASE,
        outcome=1.0,
    )
    return near, far


def names(found: Found) -> list[str]:
    return [hit.experience.experience_id for hit in found.hits]


@pytest.mark.requirement("cases.by-value")
async def test_a_case_that_misleads_its_readers_gives_way_after_their_outcomes(
    world: tuple[Store, NamespaceId],
) -> None:
    store, space = world
    near, far = await two_cases(store, space)
    cases, question = desk(store), searching(space, "refund for a late order", most=1)

    first = await cases.choose(call("call_0", session="ses_0"), question)
    for n in range(1, 25):
        found = await cases.choose(call(f"call_{n}", session=f"ses_{n}"), question)
        await cases.session_ended(
            SessionId(f"ses_{n}"),
            is_success=names(found) == [far],
            reporter=Reporter.ADMINISTRATOR,
        )
        await cases.learn()
    last = await cases.choose(call("call_99", session="ses_99"), question)

    assert names(first) == [near]
    assert names(last) == [far]
    assert last.left_out >= 1


@pytest.mark.requirement("cases.propensity")
async def test_what_was_read_is_logged_with_its_chance_and_learned_once(
    world: tuple[Store, NamespaceId],
) -> None:
    store, space = world
    await two_cases(store, space)
    cases = desk(store)

    found = await cases.choose(call(), searching(space, "refund for a late order"))
    before = await cases.learn()
    indices = tuple(hit.experience.experience_id for hit in found.hits)
    await cases.credited(call("call_2"), indices, used=1.0, helpful=0.75)
    await cases.credited(call("call_2", session="ses_9"), indices, used=1.0, helpful=0.0)
    await cases.credited(call("call_2"), indices, used=0.0, helpful=0.0)
    learned = await cases.learn()
    again = await cases.learn()

    reads = await store.cases.readers_of(indices, tenant=TENANT)
    assert (before, learned, again) == (0, 2, 0)
    assert all(0 < one.about.propensity <= 1 for (one,) in reads.values())
    assert {one.about.task_class for (one,) in reads.values()} == {CLASS}
    assert {one.score for (one,) in reads.values()} == {0.75}


async def test_an_outcome_that_is_taken_back_is_unlearned(
    world: tuple[Store, NamespaceId],
) -> None:
    store, space = world
    await two_cases(store, space)
    cases, other = desk(store), desk(store)
    await cases.choose(call(), searching(space, "refund for a late order"))
    for is_success in (True, False, True, False):
        await cases.session_ended(
            SessionId("ses_1"), is_success=is_success, reporter=Reporter.AGENT
        )
        await other.learn()
    model = await store.cases.model(TENANT)

    await cases.session_ended(SessionId("ses_1"), is_success=False, reporter=Reporter.ADMINISTRATOR)
    await cases.learn()

    after = await store.cases.model(TENANT)
    evidence = _evidence(model.learned, after.learned)
    # Half of an agent's word over two cases, then the whole of an administrator's.
    assert evidence == pytest.approx([0.3, 0.6], abs=1e-6)


def _evidence(*models: bytes | None) -> list[float]:
    return [unpacked(one, axes=10)["case"].evidence for one in models]


async def test_where_the_store_does_not_say_likeness_decides(
    world: tuple[Store, NamespaceId],
) -> None:
    store, space = world
    near, _ = await two_cases(store, space)

    class Away:
        async def readers_of(self, *_: object, **__: object) -> None:
            raise StoreUnavailableError

    found = await desk(store, book=Away()).choose(
        call(), searching(space, "refund for a late order", most=1)
    )

    assert names(found) == [near]
    assert found.left_out >= 1


@pytest.mark.requirement("guidance.by-record")
async def test_a_class_that_fails_is_guided_closely(world: tuple[Store, NamespaceId]) -> None:
    store, _ = world
    cases = desk(store)

    new = await cases.guided(AGENT, TENANT, None)
    for n in range(12):
        await ended(store, f"ses_{n}", [("list", CallStatus.OK, "")], is_solved=n == 0)
    failing = await cases.guided(AGENT, TENANT, CLASS)

    assert new.guidance is Guidance.PLAYBOOK
    assert failing.guidance is Guidance.STEP_CHECKS
    assert "1 of 12" in failing.why
