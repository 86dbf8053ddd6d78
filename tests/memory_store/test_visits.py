"""Visits of the console, on both databases."""

import pytest

from governor.ids import TenantId
from memory_store import visits
from memory_store.store import Store
from memory_store.visits import KeptVisit

pytestmark = pytest.mark.anyio


def visit(key: str, *, begun_at_ms: int = 100, seen_at_ms: int | None = None) -> KeptVisit:
    return KeptVisit(
        visit_key=key,
        secret_hash="hash",
        begun_at_ms=begun_at_ms,
        seen_at_ms=begun_at_ms if seen_at_ms is None else seen_at_ms,
    )


async def begun(store: Store, *added: KeptVisit, since_ms: int = 0) -> None:
    for one in added:
        await store.visits.begin(one, begun_since_ms=since_ms, seen_since_ms=since_ms)


async def left(store: Store, keys: str) -> str:
    return "".join([key for key in keys if await store.visits.find(key) is not None])


@pytest.mark.requirement("console.replicas")
async def test_a_visit_is_kept_as_it_is_changed_until_it_is_ended(store: Store) -> None:
    await begun(store, visit("a"), visit("b"))

    await store.visits.see("a", at_ms=150)
    await store.visits.show("a", TenantId("acme"))
    await store.visits.tell("a", "It is done.")
    told = await store.visits.find("a")
    taken = [await store.visits.take("a", words) for words in ("Other.", "It is done.")]
    again = await store.visits.take("a", "It is done.")
    after = await store.visits.find("a")
    await store.visits.end("a")
    await store.visits.see("a", at_ms=160)

    assert (taken, again) == ([False, True], False)
    assert told is not None
    assert after is not None
    assert (told.seen_at_ms, told.tenant, told.notice, after.notice) == (
        150,
        "acme",
        "It is done.",
        None,
    )
    assert await left(store, "ab") == "b"
    assert await store.visits.find("b") == visit("b")


@pytest.mark.requirement("console.replicas")
async def test_visits_are_bounded_and_those_that_ended_by_time_go_first(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(visits, "VISITS_MAX", 3)
    await begun(store, *(visit(key, begun_at_ms=100 + at) for at, key in enumerate("abc")))
    await begun(store, visit("d", begun_at_ms=104))
    oldest_went = await left(store, "abcd")
    await store.visits.see("b", at_ms=500)

    await begun(store, visit("e", begun_at_ms=510), since_ms=102)
    begun_long_ago_went = await left(store, "bcde")
    await store.visits.begin(visit("f", begun_at_ms=520), begun_since_ms=0, seen_since_ms=505)

    assert oldest_went == "bcd"
    assert begun_long_ago_went == "cde"
    assert await left(store, "cdef") == "ef"
