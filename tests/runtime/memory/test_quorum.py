"""Who lets out what waits in quarantine, and who may erase what, over HTTP."""

from collections.abc import AsyncIterator
from itertools import count

import anyio
import pytest

from governor.experience.experience import Draft, Provenance
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.namespace import SHARED
from governor.ids import ExperienceId, PrincipalId, SessionId
from memory_store.experiences.values import Indexed, UseNote
from memory_store.identities import Role
from memory_store.store import Store
from runtime.token_files import TENANT
from runtime.wiring import Sidecar
from tests.runtime.memory.house import BY, House, a_sidecar

pytestmark = pytest.mark.anyio
READERS = ("bob", "cid", "dan")
OTHERS = ("fay",)
CONFIG = """
[[budget]]
id = "all"
scope = "tenant"
limits = { tool_calls = 1000000 }
"""
_NUMBERS = count()


@pytest.fixture(scope="module")
async def sidecar(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sidecar]:
    async with a_sidecar(tmp_path_factory.mktemp("quorum"), CONFIG) as opened:
        yield opened


@pytest.fixture
async def house(sidecar: Sidecar) -> House:
    """A house with a writer and three readers whom nobody has met before."""
    suffix, tokens = f"{next(_NUMBERS)}", {}
    for name in ("eve", *READERS, *OTHERS):
        agent = PrincipalId(f"{name}-{suffix}")
        principals = sidecar.store.principals
        await principals.create(agent, tenant=TENANT, name=agent, role=Role.AGENT, by=BY, now_ms=1)
        issued = await principals.issue_token(agent, expires_at_ms=None, by=BY, now_ms=1)
        tokens[name] = issued.secret
    return House(sidecar=sidecar, suffix=suffix, tokens=tokens)


async def kept(
    house: House,
    *,
    lane: TrustLane = TrustLane.AGENT,
    standing: Standing = Standing.QUARANTINED,
) -> ExperienceId:
    """Return an experience of eve's where everybody may read; usually it waits."""
    store: Store = house.sidecar.store
    space = await store.namespaces.make(SHARED, tenant=TENANT, now_ms=1)
    draft = Draft(
        experience_id=ExperienceId(f"exp_{lane.value}{house.suffix:0>8}"),
        tenant=TENANT,
        namespace=space.namespace,
        kind=ExperienceKind.LESSON,
        lane=lane,
        standing=standing,
        content=b"retry with a smaller page",
        media_type="text/plain",
        summary="retry",
        provenance=Provenance(writer=PrincipalId(f"eve-{house.suffix}")),
        learned_at_ms=1,
        valid_from_ms=1,
    )
    await store.experiences.write((Indexed(draft=draft),))
    return draft.experience_id


async def standing_of(house: House, index: ExperienceId) -> Standing:
    (one,) = await house.sidecar.store.experiences.get((index,), tenant=TENANT)
    return one.standing


async def vote(house: House, index: ExperienceId, name: str, helpful: float) -> None:
    answer = await house.post(
        "feedback", {"indices": [index], "used": 1, "helpful": helpful}, agent=name
    )
    assert answer.status_code == 200, answer.text


async def taint(house: House, name: str) -> None:
    """Have an agent's session read what strangers wrote."""
    page = await kept(house, lane=TrustLane.WEB, standing=Standing.ACTIVE)
    answer = await house.get(f"experiences/{page}", agent=name)
    assert answer.status_code == 200, answer.text


@pytest.mark.requirement("memory.quarantine")
async def test_three_agents_that_it_served_let_out_what_waits(house: House) -> None:
    with anyio.fail_after(60):
        index = await kept(house)
        seen = []
        for name in READERS:
            await vote(house, index, name, 1.0)
            seen.append(await standing_of(house, index))

    assert seen == [Standing.QUARANTINED, Standing.QUARANTINED, Standing.ACTIVE]


@pytest.mark.requirement("memory.quarantine")
@pytest.mark.parametrize("against", ["its writer", "one that it harmed", "one that was misled"])
async def test_neither_its_writer_nor_a_majority_lets_out_what_waits(
    house: House, against: str
) -> None:
    with anyio.fail_after(60):
        index = await kept(house)
        if against == "one that was misled":
            await taint(house, "dan")
        votes = {
            "its writer": [("eve", 1.0), ("bob", 1.0), ("cid", 1.0)],
            "one that it harmed": [("bob", 0.0), ("cid", 1.0), ("dan", 1.0), ("eve", 1.0)],
            "one that was misled": [("bob", 1.0), ("cid", 1.0), ("dan", 1.0)],
        }
        for name, helpful in votes[against]:
            await vote(house, index, name, helpful)

        assert await standing_of(house, index) is Standing.QUARANTINED


@pytest.mark.requirement("memory.quarantine")
async def test_no_number_of_readings_hides_that_it_harmed_somebody(house: House) -> None:
    with anyio.fail_after(60):
        index = await kept(house)
        await vote(house, index, "bob", 0.0)
        reading = UseNote(
            experience_id=index, reader=PrincipalId("eve"), at_ms=1, session=SessionId("s")
        )
        await house.sidecar.store.experiences.note_use((reading,) * 150, tenant=TENANT)
        for name in ("cid", "dan", "fay"):
            await vote(house, index, name, 1.0)

        assert await standing_of(house, index) is Standing.QUARANTINED


@pytest.mark.requirement("memory.writers-withdraw-their-own")
async def test_an_agent_that_read_strangers_words_erases_only_what_it_wrote_since(
    house: House,
) -> None:
    with anyio.fail_after(60):
        before = await house.kept("noted before", agent="bob")
        await taint(house, "bob")
        since = await house.kept("noted since", agent="bob")

        refused = await house.delete(before["index"], agent="bob")
        erased = await house.delete(since["index"], agent="bob")
        still = await house.get(f"experiences/{before['index']}", agent="bob")

    assert (before["lane"], since["lane"]) == ("agent", "web")
    assert refused.status_code == 422
    assert "administrator" in refused.json()["detail"]
    assert erased.status_code == 200
    assert still.status_code == 200
