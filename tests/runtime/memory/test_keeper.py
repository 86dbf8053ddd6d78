"""What gives way in conversations, as it comes to be kept in a real store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest

from governor.experience.experience import Draft
from governor.experience.keepsake import Keepsake, index_of
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.trust import Way
from governor.ids import NamespaceId, PrincipalId, SessionId, TenantId
from governor.scope import ScopeChain
from memory_store.errors import StoreUnavailableError
from memory_store.experiences.book import ExperienceBook
from memory_store.experiences.values import Indexed, WriteLimits
from memory_store.store import Store, open_store
from runtime.memory.working import keeper as keeping
from runtime.memory.working.keeper import StoreKeeper
from tests.tool_gateway.makers import FakeClock

pytestmark = pytest.mark.anyio

TENANT = TenantId("acme")
ADA = ScopeChain(tenant=TENANT, agent=PrincipalId("ada"), session=SessionId("s1"))
SECONDS_MAX = 60


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@dataclass
class Bench:
    """A keeper on a store, and what it had indexed."""

    store: Store
    keeper: StoreKeeper
    clock: FakeClock
    indexed: list[Draft] = field(default_factory=list)

    async def lane_of(self, one: Keepsake) -> TrustLane:
        (found,) = await self.store.experiences.get((one.index,), tenant=TENANT)
        return found.lane


@asynccontextmanager
async def a_bench(directory: Path, *, book: ExperienceBook | None = None) -> AsyncIterator[Bench]:
    clock = FakeClock()
    async with open_store(directory) as store:
        own = await store.namespaces.make("agent", tenant=TENANT, now_ms=1, owner=ADA.agent)

        async def own_of(_chain: ScopeChain) -> NamespaceId:
            return own.namespace

        async def found_by(draft: Draft) -> Indexed:
            bench.indexed.append(draft)
            return Indexed(draft=draft)

        async def seen(_chain: ScopeChain, tool: str) -> bool:
            return tool == "browse"

        bench = Bench(
            store,
            StoreKeeper(
                book or store.experiences,
                own=own_of,
                indexed=found_by,
                saw_untrusted=seen,
                limits=lambda: WriteLimits(content_bytes_max=10_000),
                clock=clock,
            ),
            clock,
        )
        yield bench


def a_result(text: str = "[1, 2, 3]", *, name: str = "search", way: Way = Way.RESULT) -> Keepsake:
    content = text.encode()
    return Keepsake(
        index=index_of(content, tenant=TENANT, session=ADA.session),
        kind=ExperienceKind.TOOL_RESULT if way is Way.RESULT else ExperienceKind.OBSERVATION,
        way=way,
        content=content,
        media_type="text/plain",
        name=name,
        text=text,
    )


@pytest.mark.requirement("memory.compaction-replaces-old-results")
async def test_what_is_kept_is_read_back_byte_for_byte(tmp_path: Path) -> None:
    kept = [a_result("x" * number) for number in (1, 500, 9_000)]
    with anyio.fail_after(SECONDS_MAX):
        async with a_bench(tmp_path) as bench:
            assert await bench.keeper.keep(kept, chain=ADA) == {one.index for one in kept}
            for one in kept:
                found = await bench.store.experiences.content(one.index, tenant=TENANT)
                assert found.content == one.content
                assert found.experience.session == ADA.session
                assert found.experience.provenance.writer == ADA.agent


@pytest.mark.requirement("memory.compaction-is-stable")
async def test_what_is_kept_is_written_once_even_by_another_process(tmp_path: Path) -> None:
    one, other = a_result("one"), a_result("other")
    with anyio.fail_after(SECONDS_MAX):
        async with a_bench(tmp_path) as bench:
            for _ in range(3):
                assert await bench.keeper.keep([one, other], chain=ADA) == {one.index, other.index}
            assert len(bench.indexed) == 2
        async with a_bench(tmp_path) as again:
            assert await again.keeper.keep([one], chain=ADA) == {one.index}
            log = await again.store.experiences.log_since(TENANT, number=0)
            assert len(log) == 2


@pytest.mark.requirement("memory.compaction-fails-open")
async def test_what_was_erased_since_is_written_anew_and_what_was_revoked_stays_whole(
    tmp_path: Path,
) -> None:
    one, other = a_result("one"), a_result("other")
    both = [one, other]
    with anyio.fail_after(SECONDS_MAX):
        async with a_bench(tmp_path) as bench:
            book, keeper = bench.store.experiences, bench.keeper
            await keeper.keep(both, chain=ADA)
            ids = (one.index,)
            await book.erase(tenant=TENANT, by="ops", why="asked for", now_ms=5, ids=ids)
            bench.clock.at_ms += keeping.SURE_MS
            assert await keeper.keep(both, chain=ADA) == {one.index, other.index}
            await book.mark(
                ids, Standing.REVOKED, tenant=TENANT, by="ops", why="poisoned", now_ms=6
            )
            bench.clock.at_ms += keeping.SURE_MS
            assert await keeper.keep(both, chain=ADA) == {other.index}


@pytest.mark.requirement("memory.compaction-fails-open")
async def test_one_that_cannot_be_kept_does_not_hold_up_the_others(tmp_path: Path) -> None:
    many = [a_result(f"result {number}") for number in range(9)]
    many[4] = a_result("x" * 20_000)
    with anyio.fail_after(SECONDS_MAX):
        async with a_bench(tmp_path) as bench:
            kept = await bench.keeper.keep(many, chain=ADA)
    assert kept == {one.index for one in many if one is not many[4]}


class _Down(ExperienceBook):
    def __init__(self) -> None:
        pass

    async def write(self, *_: object, **__: object) -> tuple[()]:
        raise StoreUnavailableError


class _Slow(_Down):
    async def write(self, *_: object, **__: object) -> tuple[()]:
        await anyio.sleep_forever()
        return ()


@pytest.mark.requirement("memory.compaction-fails-open")
@pytest.mark.parametrize("book", [_Down(), _Slow()])
async def test_without_a_store_nothing_is_kept_and_nobody_waits_for_long(
    tmp_path: Path, book: ExperienceBook, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "KEEP_SECONDS_MAX", 0.05)
    with anyio.fail_after(SECONDS_MAX):
        async with a_bench(tmp_path, book=book) as bench:
            assert await bench.keeper.keep([a_result()], chain=ADA) == frozenset()


async def test_the_rule_of_trust_places_what_is_kept_and_none_of_it_instructs(
    tmp_path: Path,
) -> None:
    page, price = a_result("page", name="browse"), a_result("price")
    said = a_result("said", name="user", way=Way.AGENT)
    with anyio.fail_after(SECONDS_MAX):
        async with a_bench(tmp_path) as bench:
            await bench.keeper.keep([page, price, said], chain=ADA)
            assert await bench.lane_of(page) is TrustLane.WEB
            assert await bench.lane_of(price) is TrustLane.TOOL
            assert await bench.lane_of(said) is TrustLane.AGENT


async def test_what_memory_itself_answered_is_not_found_a_second_time(tmp_path: Path) -> None:
    recalled = a_result("exp_1: the price was 5", name="mcp__flyball__memory_read")
    with anyio.fail_after(SECONDS_MAX):
        async with a_bench(tmp_path) as bench:
            assert await bench.keeper.keep([recalled], chain=ADA) == {recalled.index}
            assert bench.indexed == []


async def test_another_agents_session_has_indices_of_its_own() -> None:
    other = index_of(b"x", tenant=TENANT, session=SessionId("s2"))
    mine = index_of(b"x", tenant=TENANT, session=ADA.session)
    assert mine == index_of(b"x", tenant=TENANT, session=ADA.session)
    assert len({mine, other, index_of(b"y", tenant=TENANT, session=ADA.session)}) == 3
    assert replace(ADA, agent=PrincipalId("bob")).session == ADA.session
