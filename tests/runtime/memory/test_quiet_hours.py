"""Work in quiet hours: within its own budget, only while nobody asks, and what it saves."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import anyio
import psycopg
import pytest
from sqlalchemy import text

from governor.amounts import Amounts, Unit
from governor.call import CallStatus
from governor.experience.experience import Draft, Experience
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.search import Filters, Found
from governor.ids import BudgetId, ExperienceId, NamespaceId
from governor.scope import ScopeChain
from memory_store.engine import Durability
from memory_store.errors import ExperienceNotFoundError, StoreUnavailableError
from memory_store.experiences.values import Written
from memory_store.lessons.quiet_turn import QuietTurn
from memory_store.store import Store, open_store
from runtime.adapters import StoreLedger
from runtime.configuration.memory_learning import SleepTable, SleepTerms, sleep_terms_of
from runtime.memory.house.allowance import HOUSE, Allowance, Spent
from runtime.memory.lessons.playbooks import Place, PlaybookDesk
from runtime.memory.quiet.night import Night
from runtime.memory.quiet.prepared import PreparedSearching
from runtime.memory.quiet.sleeping import Sleeper
from tests.runtime.memory.lesson_makers import (
    AGENT,
    CLASS,
    TENANT,
    ended,
    indexed,
    opened,
    put,
    searching,
)
from tests.tool_gateway.makers import FakeClock
from tool_gateway.books import Books

pytestmark = pytest.mark.anyio

QUESTION = "how are refunds of late orders made"
LONG = "Nothing of this helps anybody who asks, whatever it is that they ask about. " * 40
FACT = f"Refunds of late orders are made within five days. {LONG}"


@dataclass
class World:
    """A store, a searching that knows prepared answers, and who works at night."""

    store: Store
    space: NamespaceId
    clock: FakeClock
    is_idle: bool = True
    limits: int = 100_000

    @property
    def searching(self) -> PreparedSearching:
        return PreparedSearching(
            self.store.experience_search, self.store.questions, self.store.experiences
        )

    @property
    def terms(self) -> SleepTerms:
        return sleep_terms_of(SleepTable(asked_min=2, answer_tokens_max=120))

    def sleeper(self, turn: QuietTurn | None = None) -> Sleeper:
        books = Books(
            ledger=StoreLedger(ledger=self.store.ledger, calls=self.store.calls), clock=self.clock
        )
        allowance = Allowance(
            books,
            self.store.budgets,
            self.store.questions,
            clock=self.clock,
            limits=Amounts({Unit.MEMORY_READ_TOKENS: self.limits}),
        )
        return Sleeper(
            self.store,
            self.store.experience_search,
            PlaybookDesk(
                self.store.playbooks,
                self.store.calls,
                kept=self.nothing_kept,
                saw_untrusted=self.clean,
                key=b"secret",
                clock=self.clock,
            ),
            allowance,
            keep=self.keep,
            place_of=self.place_of,
            is_idle=lambda: self.is_idle,
            clock=self.clock,
            terms=lambda: self.terms,
            turn=(turn or QuietTurn(reader=self.store.reader)).taken,
        )

    async def nothing_kept(self, _: object) -> tuple[Experience, ...]:
        return ()

    async def clean(self, _: object) -> bool:
        return False

    async def keep(self, draft: Draft, *, is_found: bool) -> bool:
        ready = indexed(draft)
        ready = ready if is_found else replace(ready, terms="")
        (written,) = await self.store.experiences.write((ready,))
        return isinstance(written, Written) and written.is_new

    async def place_of(self, _: object) -> Place:
        return Place(tenant=TENANT, namespace=self.space, task_class=CLASS)

    async def ask(self, text: str = QUESTION, *, filters: Filters | None = None) -> Found:
        asked = self.searching
        found = await asked.search(searching(self.space, text, filters=filters))
        await asked.flush()
        return found


@pytest.fixture
async def world(begun_state: Path) -> AsyncIterator[World]:
    async with opened(begun_state) as (store, space):
        yield World(store=store, space=space, clock=FakeClock(at_ms=2_000_000, number=10_000_000))


async def prepared(world: World) -> ExperienceId:
    """Have a question answered at night, and return the answer's index."""
    await put(world.store, world.space, "fact", FACT)
    for _ in range(2):
        await world.ask()
    night = await world.sleeper().night()
    assert night.answered == 1
    (hit,) = (await world.ask()).hits
    assert hit.experience.provenance.derived_from == (ExperienceId("exp_fact"),)
    return hit.experience.experience_id


@pytest.mark.requirement("quiet.answers-beforehand")
async def test_what_is_asked_time_and_again_is_answered_beforehand_in_fewer_tokens(
    world: World,
) -> None:
    index = await prepared(world)

    found = await world.ask()
    content = await world.store.experiences.content(index, tenant=TENANT)

    (answer,) = [hit.experience for hit in found.hits]
    assert content.content.startswith(b"[exp_fact] Refunds of late orders are made within five")
    assert (answer.kind, answer.lane) == (ExperienceKind.FACT, TrustLane.AGENT)
    assert answer.tokens <= world.terms.answer_tokens_max < 500
    assert answer.valid_until_ms == 2_000_000 + world.terms.answer_kept_ms
    assert found.left_out == 1
    figures = await world.store.questions.figures(TENANT)
    assert figures.served == 2
    assert figures.tokens_saved > 2 * 500
    assert figures.tokens > 500


@pytest.mark.requirement("quiet.answers-hold")
@pytest.mark.parametrize("what", ["superseded", "revoked", "erased", "speaks of it"])
async def test_an_answer_whose_source_changed_is_served_no_more(world: World, what: str) -> None:
    index = await prepared(world)

    match what:
        case "superseded":
            await put(world.store, world.space, "news", "Refunds take a day.", supersedes="fact")
        case "speaks of it":
            await put(world.store, world.space, "news", "Refunds of late orders take a day now.")
        case "revoked":
            await world.store.experiences.mark(
                (ExperienceId("exp_fact"),),
                Standing.REVOKED,
                tenant=TENANT,
                by="root",
                why="wrong",
                now_ms=9,
            )
        case _:
            await world.store.experiences.erase(
                tenant=TENANT, by="root", why="asked for", now_ms=9, ids=(ExperienceId("exp_fact"),)
            )

    after = await world.ask()

    assert [hit.experience.experience_id for hit in after.hits] != [index]
    assert (await world.store.questions.figures(TENANT)).served == 1


async def test_an_answer_is_served_while_what_is_new_speaks_of_other_things(world: World) -> None:
    index = await prepared(world)
    await put(world.store, world.space, "other", "The office cat is called Tom.")

    assert [hit.experience.experience_id for hit in (await world.ask()).hits] == [index]


@pytest.mark.requirement("quiet.answers-hold")
async def test_an_answer_serves_only_the_same_question_of_the_same_lanes(world: World) -> None:
    index = await prepared(world)
    tools_only = Filters(lanes=(TrustLane.TOOL,))

    assert [
        hit.experience.experience_id for hit in (await world.ask(filters=tools_only)).hits
    ] == []
    other = await world.ask("how are refunds of late orders made in Spain")
    assert [hit.experience.experience_id for hit in other.hits] == ["exp_fact"]
    assert (await world.store.questions.figures(TENANT)).served == 1
    assert await world.store.experiences.get((index,), tenant=TENANT)


@pytest.mark.requirement("quiet.own-budget")
async def test_work_in_quiet_hours_is_charged_to_the_house_and_stops_at_its_budget(
    world: World,
) -> None:
    world.limits = 20_000
    await put(world.store, world.space, "fact", FACT)
    for asked in (QUESTION, "refunds within five days", "late orders anybody asks about"):
        for _ in range(2):
            await world.ask(asked)
    await put(world.store, world.space, "case", FACT, kind=ExperienceKind.CASE, outcome=1.0)

    night = await world.sleeper().night()

    budget = await world.store.budgets.get(BudgetId(f"sleep-{TENANT}"))
    calls = await world.store.calls.page(tenant=TENANT, agent=HOUSE)
    figures = await world.store.questions.figures(TENANT)
    assert budget.budget.subject == HOUSE
    # Each hold is for as much as may be read; what is settled is what was.
    assert night.answered == 3
    assert night.denied == 0
    assert {view.record.name for view in calls.items} == {"memory_sleep"}
    charged = sum(view.charged.of(Unit.MEMORY_READ_TOKENS) for view in calls.items)
    assert charged == figures.tokens > 0


async def test_where_the_budget_of_the_house_is_used_up_nothing_is_done(world: World) -> None:
    world.limits = 10
    await put(world.store, world.space, "fact", FACT)
    for _ in range(2):
        await world.ask()

    night = await world.sleeper().night()

    assert night.answered == 0
    assert night.denied >= 1
    assert (await world.store.questions.figures(TENANT)).works == 0


@pytest.mark.requirement("quiet.only-while-idle")
async def test_nothing_is_done_while_somebody_asks(world: World) -> None:
    await put(world.store, world.space, "fact", FACT)
    for _ in range(2):
        await world.ask()
    world.is_idle = False

    night = await world.sleeper().night()

    assert night.was_disturbed
    assert night.answered == 0
    assert (await world.store.calls.page(tenant=TENANT, agent=HOUSE)).items == ()


@pytest.mark.requirement("quiet.lessons")
async def test_cases_that_repeat_become_one_lesson_in_the_worst_lane_and_twins_are_linked(
    world: World,
) -> None:
    text = (
        "refund for a late order: ask a person, look the customer up, check the card, then refund "
        "the order at once and write a note about it, case {}"
    )
    lanes = (TrustLane.AGENT, TrustLane.TOOL, TrustLane.AGENT)
    for n, lane in enumerate(lanes):
        await put(
            world.store,
            world.space,
            f"case{n}",
            text.format(["one", "two", "three"][n]),
            kind=ExperienceKind.CASE,
            outcome=1.0,
            lane=lane,
        )
    await put(world.store, world.space, "odd", "cats", kind=ExperienceKind.CASE, outcome=0.0)
    sleeper = world.sleeper()

    first = await sleeper.night()
    again = await sleeper.night()
    anew = await world.sleeper().night()

    page = await world.store.experiences.page(tenant=TENANT, kind=ExperienceKind.LESSON)
    (lesson,) = page.items
    assert (first.lessons, again.lessons, anew.lessons) == (1, 0, 0)
    assert (lesson.lane, lesson.outcome, lesson.task_class) == (TrustLane.TOOL, 1.0, CLASS)
    assert set(lesson.provenance.derived_from) == {f"exp_case{n}" for n in range(3)}
    assert first.linked == 2
    twins = await world.store.links.tied_to(ExperienceId("exp_case0"), tenant=TENANT)
    assert twins == ("exp_case1", "exp_case2")
    assert len((await world.store.experiences.page(tenant=TENANT)).items) == 5


async def test_sessions_that_ended_are_reflected_on_once(world: World) -> None:
    failing = [
        ("search", CallStatus.TOOL_ERROR, "bad date 31"),
        ("search", CallStatus.OK, ""),
    ]
    for n in range(2):
        await ended(world.store, f"ses_{n}", failing, is_solved=True)
    sleeper = world.sleeper()

    first, again = await sleeper.night(), await sleeper.night()
    works = (await world.store.questions.figures(TENANT)).works
    # As after a restart, or in another sidecar on the same database.
    anew = await world.sleeper().night()

    assert (first.reflected > 0, again.reflected, anew.reflected) == (True, 0, 0)
    assert works == 2  # the reflection, and what was made of cases
    assert (await world.store.questions.figures(TENANT)).works == 3
    kept = await world.store.playbooks.get(TENANT, world.space, CLASS)
    assert len(kept.playbook.shown) == 1


@pytest.mark.requirement("quiet.one-at-a-time")
async def test_nothing_is_done_while_another_sidecar_works(
    tmp_path: Path, database: str, world: World
) -> None:
    """The turn is lost with the connection, too: a sidecar that dies keeps nobody waiting."""
    async with (
        open_store(tmp_path / "one", url=database, durability=Durability.PROCESS) as one,
        open_store(tmp_path / "two", url=database, durability=Durability.PROCESS) as two,
    ):
        mine, theirs = (QuietTurn(reader=store.reader) for store in (one, two))
        with anyio.fail_after(60):
            async with mine.taken() as first, theirs.taken() as second:
                assert (first, second) == (True, False)
                await one.reader.run(lambda connection: connection.execute(text("SELECT 1")).all())
                night = await world.sleeper(turn=theirs).night()
                assert night == Night()
            async with theirs.taken() as then:
                assert then
                _drop_connections(database)
                # The first use of each connection that was lost tells that it was.
                while not await _is_free(mine):
                    """It is asked again."""


async def _is_free(turn: QuietTurn) -> bool:
    try:
        async with turn.taken() as is_free:
            return is_free
    except StoreUnavailableError:
        return False


def _drop_connections(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )


@pytest.mark.requirement("quiet.answers-hold")
async def test_what_a_team_has_is_never_kept_among_an_agents_own(world: World) -> None:
    """It would stay there when the right to read it is taken away."""
    team = await world.store.namespaces.make("team/red", tenant=TENANT, now_ms=1)
    await put(world.store, team.namespace, "fact", FACT)
    await put(world.store, world.space, "mine", f"Refunds of late orders are mine to make. {LONG}")
    both = replace(searching(world.space, QUESTION), namespaces=(world.space, team.namespace))
    for _ in range(2):
        asked = world.searching
        await asked.search(both)
        await asked.flush()

    await world.sleeper().night()

    own = await world.store.experiences.page(tenant=TENANT, namespace=world.space)
    assert [one.experience_id for one in own.items] == ["exp_mine"]


@pytest.mark.requirement("quiet.own-budget")
async def test_what_a_model_cost_is_held_against_what_was_saved(world: World) -> None:
    charges = iter((700, 1_900))

    class Charged(Books):
        async def charged_to(self, chain: ScopeChain) -> Amounts | None:
            return Amounts({Unit.COST_MICROUSD: next(charges)})

    async def do() -> Spent:
        return Spent(read_tokens=3, made=1)

    books = Charged(
        ledger=StoreLedger(ledger=world.store.ledger, calls=world.store.calls), clock=world.clock
    )
    limits = Amounts({Unit.MEMORY_READ_TOKENS: 100})
    store = world.store
    allowance = Allowance(books, store.budgets, store.questions, clock=world.clock, limits=limits)

    await allowance.work(TENANT, "reflect", read_tokens=10, do=do)

    figures = await store.questions.figures(TENANT)
    assert (figures.cost_microusd, figures.tokens, figures.made) == (1_200, 3, 1)


@pytest.mark.requirement("quiet.answers-hold")
async def test_what_its_writer_forgets_goes_with_what_the_house_made_of_it(world: World) -> None:
    index = await prepared(world)

    await world.store.experiences.erase(
        tenant=TENANT,
        by=AGENT,
        why="its writer asked for it",
        now_ms=2_000_001,
        ids=(ExperienceId("exp_fact"),),
        only_of=AGENT,
    )

    with pytest.raises(ExperienceNotFoundError):
        await world.store.experiences.get((index,), tenant=TENANT)
