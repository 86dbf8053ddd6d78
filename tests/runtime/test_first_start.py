"""What a new state directory is given, and what a later start leaves alone."""

import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import anyio
import pytest

from governor.amounts import Amounts, Unit
from governor.budget import Budget
from governor.ids import BudgetId
from governor.scope import ScopeKind
from governor.window import Lifetime
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.errors import NotFoundError
from memory_store.identities import Identity, Role
from memory_store.store import Store, open_store
from runtime.first_start import prepare
from runtime.token_files import ADMIN, AGENT, TENANT, TokenFiles

pytestmark = pytest.mark.anyio

NOW_MS = 1_700_000_000_000
ADMINISTRATOR = Actor(name="root")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(tmp_path, durability=Durability.PROCESS) as opened:
        yield opened


@pytest.fixture
def start(store: Store, tmp_path: Path) -> Callable[..., Awaitable[TokenFiles]]:
    """Starts once more on the same state directory, with the budgets of the file."""

    async def started(*budgets: Budget) -> TokenFiles:
        return await prepare(store, state_dir=tmp_path, budgets=budgets, now_ms=NOW_MS)

    return started


def allowance(tool_calls: int) -> Budget:
    return Budget(
        budget_id=BudgetId("each-session"),
        tenant=TENANT,
        scope=ScopeKind.SESSION,
        subject=None,
        limits=Amounts({Unit.TOOL_CALLS: tool_calls}),
        window=Lifetime(),
    )


async def who(store: Store, token_file: Path) -> Identity | None:
    secret = await anyio.Path(token_file).read_text(encoding="utf-8")
    return await store.principals.authenticate(secret.strip(), now_ms=NOW_MS)


async def tokens_of_the_agent(store: Store) -> list[str]:
    return [view.token_id for view in (await store.principals.list_tokens(AGENT)).items]


Start = Callable[..., Awaitable[TokenFiles]]


async def test_the_first_start_makes_an_agent_and_an_administrator_with_a_token_each(
    store: Store, start: Start
) -> None:
    files = await start()

    agent, admin = await who(store, files.agent), await who(store, files.admin)
    assert agent is not None
    assert admin is not None
    assert (agent.tenant, agent.principal, agent.role) == (TENANT, AGENT, Role.AGENT)
    assert (admin.tenant, admin.principal, admin.role) == (TENANT, ADMIN, Role.ADMIN)


async def test_the_token_files_are_for_their_owner_alone(start: Start, tmp_path: Path) -> None:
    files = await start()

    modes = [stat.S_IMODE(path.stat().st_mode) for path in (files.agent, files.admin)]
    assert modes == [0o600, 0o600]
    assert [path async for path in anyio.Path(tmp_path).glob("*.new")] == []


async def test_a_second_start_leaves_everything_as_it_is(store: Store, start: Start) -> None:
    first = await start(allowance(10))
    written = [path.read_bytes() for path in (first.agent, first.admin)]
    audited = len((await store.audit.page()).items)

    second = await start(allowance(10))

    assert second == first
    assert [path.read_bytes() for path in (second.agent, second.admin)] == written
    assert len(await tokens_of_the_agent(store)) == 1
    assert len((await store.audit.page()).items) == audited


async def test_a_deleted_token_file_is_written_anew_with_a_new_token(
    store: Store, start: Start
) -> None:
    first = await start()
    lost, kept = first.agent.read_text(), first.admin.read_text()
    first.agent.unlink()

    second = await start()

    assert second.agent.read_text() != lost
    assert second.admin.read_text() == kept
    assert len(await tokens_of_the_agent(store)) == 2
    identity = await who(store, second.agent)
    assert identity is not None
    assert identity.principal == AGENT


async def test_a_draft_that_a_crash_left_behind_does_not_stop_the_next_start(
    store: Store, start: Start, tmp_path: Path
) -> None:
    (tmp_path / "agent.new").write_text("half a tok")
    (tmp_path / "agent.new").chmod(0o644)

    files = await start()

    assert await who(store, files.agent) is not None
    assert stat.S_IMODE(files.agent.stat().st_mode) == 0o600


async def test_the_files_budgets_are_made_at_the_first_start(store: Store, start: Start) -> None:
    await start(allowance(10))

    view = await store.budgets.get(BudgetId("each-session"))
    assert view.budget == allowance(10)


async def test_the_file_never_overwrites_what_an_administrator_has_set(
    store: Store, start: Start
) -> None:
    await start(allowance(10))
    await store.budgets.put(allowance(99), expected_version=None, by=ADMINISTRATOR, now_ms=NOW_MS)

    await start(allowance(10))

    view = await store.budgets.get(BudgetId("each-session"))
    assert view.budget == allowance(99)


async def test_a_budget_that_an_administrator_has_retired_does_not_come_back(
    store: Store, start: Start
) -> None:
    await start(allowance(10))
    await store.budgets.delete(BudgetId("each-session"), by=ADMINISTRATOR, now_ms=NOW_MS)

    await start(allowance(10))

    with pytest.raises(NotFoundError):
        await store.budgets.get(BudgetId("each-session"))


@pytest.mark.parametrize("end", ["rotate", "revoke", "garble", "empty"])
async def test_a_token_file_that_does_not_work_any_more_gets_a_new_token(
    store: Store, start: Start, end: str
) -> None:
    files = await start()
    [token_id] = await tokens_of_the_agent(store)
    match end:
        case "rotate":
            await store.principals.rotate_token(
                token_id, expires_at_ms=None, by=ADMINISTRATOR, now_ms=NOW_MS
            )
        case "revoke":
            await store.principals.revoke_token(token_id, by=ADMINISTRATOR, now_ms=NOW_MS)
        case "garble":
            files.agent.write_bytes(b"\xff\xfe")
        case _:
            files.agent.write_text("")

    again = await start()

    identity = await who(store, again.agent)
    assert identity is not None
    assert identity.principal == AGENT
    assert stat.S_IMODE(again.agent.stat().st_mode) == 0o600


async def test_a_disabled_agent_gets_no_new_tokens_at_every_start(
    store: Store, start: Start
) -> None:
    files = await start()
    written = files.agent.read_bytes()
    await store.principals.disable(AGENT, by=ADMINISTRATOR, now_ms=NOW_MS)

    await start()

    assert files.agent.read_bytes() == written
    assert len(await tokens_of_the_agent(store)) == 1
