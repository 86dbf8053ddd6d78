"""What agents share through the bank of their team, at the same time and with whom it helps."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from governor.experience.experience import Experience
from governor.experience.kinds import Standing, TrustLane
from governor.experience.quota import LaneLimit, LaneQuotas
from governor.experience.sharing import Entry, SharingTerms
from governor.ids import ExperienceId
from memory_store.engine import Durability
from memory_store.experiences.values import WriteLimits
from memory_store.memory_choices import What
from memory_store.store import Store, open_store
from runtime.memory.ports import Offered
from runtime.memory.sharing.banks import SharedBanks
from tests.runtime.memory.learning_house import (
    ACME,
    CLOCK,
    Marks,
    call_of,
    kept,
    namespace_of,
    search_of,
)

pytestmark = pytest.mark.anyio
AGENTS, NOTES = 6, 5


@dataclass
class Team:
    """Agents of one team, on the stores of one or two sidecars over one database."""

    stores: list[Store]
    marks: Marks = field(default_factory=Marks)

    def __post_init__(self) -> None:
        """Put together the banks of each sidecar."""
        self.store = self.stores[0]
        self.banks = [
            SharedBanks(
                store.experiences,
                store.experience_search,
                store.choices,
                store.links,
                marks=self.marks,
                clock=CLOCK,
                terms=lambda: SharingTerms(explored=0.0),
            )
            for store in self.stores
        ]

    async def share(
        self,
        agent: str,
        name: str,
        text: str,
        *,
        at: int = 0,
        lane: TrustLane = TrustLane.AGENT,
    ) -> tuple[Experience, Offered]:
        """Return what an agent keeps, and what its team makes of it."""
        store = self.stores[at]
        own = await namespace_of(store, "agent", owner=agent)
        bank = await namespace_of(store, "team/red")
        one = await kept(store, own.namespace, name, text, agent=agent, lane=lane)
        return one, await self.banks[at].offered(call_of(agent), one, bank)

    async def found(self, text: str, *, most: int = 100) -> list[Experience]:
        """Return what the team finds."""
        bank = await namespace_of(self.store, "team/red")
        found = await self.store.experience_search.search(
            search_of((bank.namespace,), text, most=most)
        )
        return [hit.experience for hit in found.hits]

    async def standing(self, index: ExperienceId) -> Standing:
        (one,) = await self.store.experiences.get((index,), tenant=ACME)
        return one.standing


@pytest.fixture
async def team(tmp_path: Path, store_url: str | None) -> AsyncIterator[Team]:
    """A team on two sidecars where the database is a server, on one where it is a file."""
    async with AsyncExitStack() as stack:
        stores = [
            await stack.enter_async_context(
                open_store(tmp_path / name, url=store_url, durability=Durability.PROCESS)
            )
            for name in (("a",) if store_url is None else ("a", "b"))
        ]
        await namespace_of(stores[0], "team/red")
        for number in range(AGENTS):
            await namespace_of(stores[0], "agent", owner=f"agent{number}")
        yield Team(stores=stores)


@pytest.mark.requirement("memory.sharing-concurrent")
async def test_agents_that_share_at_once_lose_nothing(team: Team) -> None:
    """Each has its own, each offer is decided and logged once, each that entered is found."""
    offers: dict[str, Offered] = {}

    async def work(number: int) -> None:
        for note in range(NOTES):
            name = f"n{number}x{note}"
            text = f"Agent {number} found the harbour fact {name} of pier {note}{number}."
            at = number % len(team.stores)
            _, offers[name] = await team.share(f"agent{number}", name, text, at=at)

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            for number in range(AGENTS):
                tasks.start_soon(work, number)

    entered = {name for name, one in offers.items() if one.entry is Entry.ENTERS}
    found = await team.found("harbour fact")
    sources = {source for one in found for source in one.provenance.derived_from}
    logged = await team.store.choices.page(ACME, What.SHARING, limit=200)
    assert len(offers) == AGENTS * NOTES
    assert len(entered) > AGENTS * NOTES / 2
    assert sources == {f"exp_{name}" for name in entered}
    assert len(logged.items) == AGENTS * NOTES
    for name in offers:
        assert await team.standing(ExperienceId(f"exp_{name}")) is Standing.ACTIVE


@pytest.mark.requirement("memory.sharing-links")
async def test_what_the_bank_has_is_linked_and_its_writer_keeps_its_own(team: Team) -> None:
    text = "The gate code of the north pier is changed every Monday."
    _, first = await team.share("ada", "one", text)
    second_own, second = await team.share("bob", "two", text)

    assert (first.entry, second.entry) == (Entry.ENTERS, Entry.LINKED)
    assert second.found_as == first.found_as
    assert await team.standing(second_own.experience_id) is Standing.ACTIVE
    tied = await team.store.links.tied_to(second_own.experience_id, tenant=ACME)
    assert tied == (first.found_as,)
    (found,) = await team.found("gate code north pier")
    assert found.provenance.writer == "ada"


@pytest.mark.requirement("memory.sharing-links")
async def test_what_a_misled_session_said_first_keeps_nobody_from_the_same_in_better_hands(
    team: Team,
) -> None:
    text = "The spare key of the crane hangs behind the second locker."
    _, first = await team.share("eve", "one", text, lane=TrustLane.WEB)
    _, second = await team.share("bob", "two", text)
    _, third = await team.share("joe", "three", text, lane=TrustLane.WEB)

    assert (first.entry, second.entry) == (Entry.ENTERS, Entry.ENTERS)
    # The other way round what is trusted more stands for both.
    assert (third.entry, third.found_as) == (Entry.LINKED, second.found_as)
    (found,) = await team.found("spare key crane")
    assert found.provenance.writer == "bob"


@pytest.mark.requirement("memory.sharing-learned")
async def test_what_misled_its_readers_is_found_no_longer_and_their_writer_keeps_it(
    team: Team,
) -> None:
    own, offered = await team.share("ada", "bad", "The harbour master is always away on Fridays.")
    assert offered.found_as is not None
    for reader in ("bob", "eve", "joe", "kim", "leo"):
        await team.banks[0].credited(call_of(reader), (offered.found_as,), used=1.0, helpful=0.0)

    assert await team.banks[0].learn() == 1

    assert await team.found("harbour master Fridays") == []
    assert await team.standing(offered.found_as) is Standing.QUARANTINED
    assert await team.standing(own.experience_id) is Standing.ACTIVE
    assert await team.banks[0].learn() == 0


@pytest.mark.requirement("memory.sharing-learned")
async def test_neither_its_writer_nor_who_was_misled_speaks_for_what_is_shared(
    team: Team,
) -> None:
    _, offered = await team.share("ada", "mine", "The harbour cat is called Kelpie.")
    assert offered.found_as is not None
    misled = call_of("bob", session="web")
    team.marks.misled.add(misled.chain.session)

    await team.banks[0].credited(call_of("ada"), (offered.found_as,), used=1.0, helpful=1.0)
    await team.banks[0].credited(misled, (offered.found_as,), used=1.0, helpful=1.0)
    assert await team.banks[0].learn() == 0
    await team.banks[0].credited(call_of("bob"), (offered.found_as,), used=1.0, helpful=1.0)

    assert await team.banks[0].learn() == 1
    bank = await namespace_of(team.store, "team/red")
    known = await team.store.choices.learned(ACME, What.SHARING, bank.namespace)
    assert known.revision == 1


@pytest.mark.requirement("memory.sharing-concurrent")
async def test_readers_that_speak_at_once_are_all_heard(team: Team) -> None:
    _, offered = await team.share("ada", "seen", "The tide table hangs in the harbour office.")
    index = offered.found_as
    assert index is not None

    with anyio.fail_after(120):
        async with anyio.create_task_group() as tasks:
            for number in range(12):
                banks = team.banks[number % len(team.banks)]

                async def speak(banks: SharedBanks = banks, number: int = number) -> None:
                    await banks.credited(
                        call_of(f"reader{number}"), (index,), used=1.0, helpful=1.0
                    )

                tasks.start_soon(speak)

    (made,) = await team.store.choices.about(ACME, (index,))
    assert made.outcome is not None
    assert made.outcome.count("reader") == 24  # each by its name, and in its session's


@pytest.mark.requirement("memory.sharing-learned")
async def test_a_copy_takes_room_like_any_other_write(team: Team) -> None:
    """Where its writer has none left in that lane today, what it offers stays with it."""
    day = LaneQuotas(limits={TrustLane.AGENT: LaneLimit(writes_max=1)})
    banks = SharedBanks(
        team.store.experiences,
        team.store.experience_search,
        team.store.choices,
        team.store.links,
        marks=team.marks,
        clock=CLOCK,
        terms=lambda: SharingTerms(explored=0.0),
        limits=lambda: WriteLimits(lanes=day, now_ms=CLOCK.now_ms()),
    )
    bank = await namespace_of(team.store, "team/red")
    own = await namespace_of(team.store, "agent", owner="ada")
    entries = []
    for name in ("one", "two"):
        note = await kept(team.store, own.namespace, name, f"Fact {name} of the pier.", agent="ada")
        entries.append((await banks.offered(call_of("ada"), note, bank)).entry)

    assert entries == [Entry.ENTERS, Entry.STAYS]
