"""What memory chose by itself is kept, with what became of it and what was learned of that."""

from dataclasses import replace

import anyio
import pytest
from contracts.builders import AGENT, TENANT

from governor.ids import ExperienceId, NamespaceId, SessionId, TenantId
from memory_store.errors import NotFoundError, VersionConflictError
from memory_store.memory_choices import Learned, MemoryChoice, What
from memory_store.store import Store

pytestmark = pytest.mark.anyio
SESSION = SessionId("s")
OTHER = TenantId("other")


def choice(key: str, *, at_ms: int = 10, shown: tuple[str, ...] = ()) -> MemoryChoice:
    """Return a search that was done."""
    return MemoryChoice(
        tenant=TENANT,
        what=What.SEARCH,
        key=key,
        agent=AGENT,
        session=SESSION,
        decided_at_ms=at_ms,
        arm="mid",
        propensity=0.9,
        explored=False,
        options='{"mid":0.9,"low":0.1}',
        context=b"\0" * 8,
        shown=tuple(ExperienceId(one) for one in shown),
        tokens=120,
        latency_us=900,
    )


@pytest.mark.requirement("memory.tiers-logged")
async def test_a_choice_is_kept_once_with_all_that_was_known_of_it(store: Store) -> None:
    made = choice("c1", shown=("exp_1",))

    await store.choices.record((made, replace(made, arm="low")))

    found = await store.choices.page(TENANT, What.SEARCH)
    assert [one.choice for one in found.items] == [made]
    assert not (await store.choices.page(OTHER, What.SEARCH)).items


async def test_searches_are_found_by_what_they_showed(store: Store) -> None:
    first, second = choice("c1", shown=("exp_1", "exp_2")), choice("c2", at_ms=20, shown=("exp_2",))
    await store.choices.record((first, second))

    async def keys(*indices: str, tenant: TenantId = TENANT) -> list[str]:
        wanted = tuple(ExperienceId(one) for one in indices)
        found = await store.choices.that_showed(tenant, SESSION, wanted)
        return [one.choice.key for one in found]

    assert await keys("exp_2") == ["c2", "c1"]
    assert await keys("exp_1") == ["c1"]
    assert await keys("exp_3") == []
    assert await keys("exp_2", tenant=OTHER) == []


@pytest.mark.requirement("memory.tiers-learn")
async def test_what_is_said_is_learned_once_and_again_when_it_changes(store: Store) -> None:
    await store.choices.record((choice("c1"),))
    assert not await store.choices.say(TENANT, What.SEARCH, "unknown", "1")

    assert await store.choices.say(TENANT, What.SEARCH, "c1", "1")
    (pending,) = await store.choices.pending(What.SEARCH)
    known = Learned()
    # While it is learned, somebody says something else.
    await store.choices.say(TENANT, What.SEARCH, "c1", "2")
    known = await _learn(store, b"state", pending.outcome, over=known)

    (again,) = await store.choices.pending(What.SEARCH)
    assert (again.outcome, again.learned) == ("2", "1")
    await _learn(store, b"more", again.outcome, over=known)
    await store.choices.say(TENANT, What.SEARCH, "c1", "2")
    assert await store.choices.pending(What.SEARCH) == ()


async def _learn(store: Store, state: bytes, outcome: str | None, *, over: Learned) -> Learned:
    made = await store.choices.get(TENANT, What.SEARCH, "c1")
    assert made is not None
    taught = (replace(made, outcome=outcome, learned=outcome),)
    return await store.choices.learn(
        state, taught, tenant=TENANT, what=What.SEARCH, over=over, now_ms=5
    )


@pytest.mark.requirement("memory.tiers-rolled-back")
async def test_what_was_learned_is_put_in_force_and_taken_back(store: Store) -> None:
    log = store.choices
    with pytest.raises(NotFoundError):
        await log.put_in_force(TENANT, What.SEARCH, expected_revision=0, now_ms=1)

    now = await _taught(store, b"one", Learned())
    assert not now.in_force
    now = await log.put_in_force(TENANT, What.SEARCH, expected_revision=now.revision, now_ms=2)
    now = await _taught(store, b"two", now)
    assert (now.in_force, now.state) == (True, b"two")
    now = await log.put_in_force(TENANT, What.SEARCH, expected_revision=now.revision, now_ms=3)

    now = await log.roll_back(TENANT, What.SEARCH, expected_revision=now.revision, now_ms=4)
    assert (now.in_force, now.state) == (True, b"one")
    now = await log.roll_back(TENANT, What.SEARCH, expected_revision=now.revision, now_ms=5)
    assert not now.in_force
    with pytest.raises(NotFoundError):
        await log.roll_back(TENANT, What.SEARCH, expected_revision=now.revision, now_ms=6)


async def _taught(store: Store, state: bytes, over: Learned) -> Learned:
    return await store.choices.learn(
        state, (), tenant=TENANT, what=What.SEARCH, over=over, now_ms=1
    )


@pytest.mark.requirement("memory.sharing-concurrent")
async def test_of_those_who_learn_at_once_each_learns_over_what_the_other_did(
    store: Store,
) -> None:
    """Nothing that was learned is lost: who was late is told, and begins again."""
    bank = NamespaceId("ns_team")

    async def learn(number: int) -> None:
        while True:
            known = await store.choices.learned(TENANT, What.SHARING, bank)
            state = (known.state or b"") + bytes([number])
            try:
                await store.choices.learn(
                    state, (), tenant=TENANT, what=What.SHARING, bank=bank, over=known, now_ms=1
                )
            except VersionConflictError:
                continue
            return

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(learn, number)

    known = await store.choices.learned(TENANT, What.SHARING, bank)
    assert sorted(known.state or b"") == list(range(8))
    assert known.revision == 8


async def test_old_choices_are_removed_and_what_nobody_spoke_of_is_found(store: Store) -> None:
    await store.choices.record((choice("c1", at_ms=1), choice("c2", at_ms=50)))

    silent = await store.choices.silent(What.SEARCH, before_ms=40)

    assert [one.choice.key for one in silent] == ["c1"]
    assert await store.choices.remove(before_ms=40) == 1
    assert [one.choice.key for one in (await store.choices.page(TENANT, What.SEARCH)).items] == [
        "c2"
    ]
