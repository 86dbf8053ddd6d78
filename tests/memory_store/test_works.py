"""What kinds of work have used, as the store keeps it: over restarts, from several, bounded."""

from pathlib import Path

import pytest

from governor.command_class import CommandClass
from governor.expectation import Known, Measure, Work
from governor.ids import TenantId, ToolName
from memory_store import works
from memory_store.store import open_store

pytestmark = pytest.mark.anyio

ONE = {Measure.WALL_MS: 100, Measure.MEMORY_PEAK_KIB: 5_000}


def work(repository: str = "abc", *, tenant: str = "acme") -> Work:
    return Work(
        tenant=TenantId(tenant),
        tool=ToolName("shell_run"),
        kind=CommandClass.TEST,
        repository=repository,
    )


@pytest.mark.requirement("estimates.learned-survive")
async def test_what_was_learned_is_known_after_a_restart(tmp_path: Path) -> None:
    learned = Known().with_call(ONE).with_call({Measure.WALL_MS: 7})
    async with open_store(tmp_path) as store:
        await store.works.add(tuple({work(): learned}.items()), now_ms=1)

    async with open_store(tmp_path) as store:
        found = dict(await store.works.all())

    assert found == {work(): learned}


@pytest.mark.requirement("estimates.learned-survive")
async def test_what_several_learned_is_added_up(tmp_path: Path) -> None:
    one = Known().with_call(ONE)
    async with open_store(tmp_path) as store:
        await store.works.add(tuple({work(): one}.items()), now_ms=1)
        await store.works.add(tuple({work(): one, work("other"): one}.items()), now_ms=2)
        found = dict(await store.works.all())

    assert found == {work(): one.plus(one), work("other"): one}


async def test_tenants_learn_apart(tmp_path: Path) -> None:
    one = Known().with_call(ONE)
    async with open_store(tmp_path) as store:
        await store.works.add(
            tuple({work(): one, work(tenant="other"): one.plus(one)}.items()), now_ms=1
        )
        found = dict(await store.works.all())

    assert found[work()] == one
    assert found[work(tenant="other")].count == 2


async def test_what_nobody_did_for_the_longest_time_gives_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(works, "WORKS_MAX", 3)
    one = Known().with_call(ONE)
    async with open_store(tmp_path) as store:
        await store.works.add(tuple({work(str(n)): one for n in range(3)}.items()), now_ms=1)
        await store.works.add(tuple({work("0"): one}.items()), now_ms=2)
        await store.works.add(tuple({work("new"): one}.items()), now_ms=3)
        found = dict(await store.works.all())

    assert len(found) == 3
    assert {work("0"), work("new")} < set(found)
