"""The router's models on each database: promoted, rolled back, learned beside, and bounded."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memory_store import router_models
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.errors import AlreadyExistsError, NotFoundError, VersionConflictError
from memory_store.router_models import NewRouterModel, RouterShelf, RouterStanding
from memory_store.store import Store, open_store
from tests.memory_store.router_makers import decision, ends_of, report

pytestmark = pytest.mark.anyio

ROOT = Actor(name="root")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def kept(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    url = request.getfixturevalue("database") if request.param == "postgresql" else None
    async with open_store(tmp_path / "state", url=url, durability=Durability.PROCESS) as store:
        yield store


async def add(shelf: RouterShelf, version: str, *, until_ms: int = 0, now_ms: int = 1) -> None:
    model = NewRouterModel(
        version=version,
        content=version.encode(),
        checksum=version,
        parent=None,
        learned_until_ms=until_ms,
        evidence="{}",
    )
    await shelf.add(model, by=ROOT, now_ms=now_ms)


async def promote(shelf: RouterShelf, version: str, *, now_ms: int = 5) -> RouterStanding:
    revision = (await shelf.standing()).revision
    return await shelf.promote(version, expected_revision=revision, by=ROOT, now_ms=now_ms)


async def states(shelf: RouterShelf) -> dict[str, str]:
    return {view.version: view.state for view in await shelf.all()}


@pytest.mark.requirement("router.models-versioned")
async def test_models_are_promoted_and_rolled_back_down_to_the_tier_rules(kept: Store) -> None:
    shelf = kept.router_shelf
    await add(shelf, "one", now_ms=1)
    await add(shelf, "two", now_ms=2)
    at_first = await shelf.standing()
    await promote(shelf, "one")
    second = await promote(shelf, "two")
    back = await shelf.rollback(expected_revision=second.revision, by=ROOT, now_ms=8)
    in_between = await states(shelf)

    none = await shelf.rollback(expected_revision=back.revision, by=ROOT, now_ms=9)

    assert (at_first.incumbent, at_first.candidate) == (None, "two")
    assert (second.incumbent, second.candidate) == ("two", None)
    assert back.incumbent == "one"
    assert in_between == {"one": "incumbent", "two": "retired"}
    assert none.incumbent is None
    assert none.revision == 4
    with pytest.raises(NotFoundError, match="tier rules"):
        await shelf.rollback(expected_revision=none.revision, by=ROOT, now_ms=9)
    actions = [entry.action for entry in (await kept.audit.page()).items]
    assert actions == ["router.rollback"] * 2 + ["router.promote"] * 2 + ["router.train"] * 2


async def test_what_is_not_there_or_was_changed_meanwhile_is_told(kept: Store) -> None:
    shelf = kept.router_shelf
    await add(shelf, "one")

    with pytest.raises(NotFoundError, match="nobody"):
        await promote(shelf, "nobody")
    with pytest.raises(NotFoundError):
        await shelf.content("nobody")
    with pytest.raises(VersionConflictError):
        await shelf.promote("one", expected_revision=7, by=ROOT, now_ms=1)
    assert await shelf.content("one") == b"one"


async def test_the_same_model_again_is_the_one_that_is_there(kept: Store) -> None:
    shelf = kept.router_shelf
    await add(shelf, "one", now_ms=1)
    await add(shelf, "one", now_ms=2)
    other = NewRouterModel(
        version="one",
        content=b"other",
        checksum="other",
        parent=None,
        learned_until_ms=0,
        evidence="{}",
    )

    with pytest.raises(AlreadyExistsError):
        await shelf.add(other, by=ROOT, now_ms=3)

    assert [view.created_at_ms for view in await shelf.all()] == [1]


async def test_what_was_rated_since_the_training_is_learned_beside_a_new_model(
    kept: Store,
) -> None:
    log, shelf = kept.router_log, kept.router_shelf
    names = ("before", "after", "unrated")
    made = tuple(decision(n, at_ms=at) for at, n in enumerate(names, 1))
    await log.record(made, ends_of(made), ())
    await log.report((report("before", 1.0), report("after", 0.0)))
    await add(shelf, "one", until_ms=1)

    standing = await promote(shelf, "one")

    pending = await log.pending(since_ms=standing.learn_since_ms, limit=9)
    assert [one.decision.call_id for one in pending] == ["call_after"]


async def test_of_what_was_rated_since_only_the_latest_is_learned_again(
    kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_models, "LEARNED_AGAIN_MAX", 3)
    log, shelf = kept.router_log, kept.router_shelf
    made = tuple(decision(str(at), at_ms=at) for at in range(1, 10))
    await log.record(made, ends_of(made), ())
    await log.report(tuple(report(str(at), 1.0) for at in range(1, 10)))
    await add(shelf, "one")

    standing = await promote(shelf, "one")

    pending = await log.pending(since_ms=standing.learn_since_ms, limit=20)
    assert [one.decision.call_id for one in pending] == ["call_7", "call_8", "call_9"]


async def test_what_was_learned_is_kept_once_and_told_only_as_news(kept: Store) -> None:
    shelf = kept.router_shelf
    await add(shelf, "one")
    standing = await promote(shelf, "one")

    revision = await shelf.learn(b"sums", (), over=standing, now_ms=6)

    news = await shelf.standing(known_learned=standing.learned_revision)
    known = await shelf.standing(known_learned=revision)
    assert (news.learned, news.learned_revision, news.incumbent) == (b"sums", revision, "one")
    assert known.learned is None
    with pytest.raises(VersionConflictError):
        await shelf.learn(b"late", (), over=standing, now_ms=7)
    await add(shelf, "two")
    assert (await promote(shelf, "two")).learned is None


async def test_old_models_give_way_but_not_those_that_one_can_go_back_to(
    kept: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(router_models, "MODELS_MAX", 3)
    shelf = kept.router_shelf
    for number in range(3):
        await add(shelf, f"m{number}", now_ms=number)
    await promote(shelf, "m0")
    await promote(shelf, "m1")
    for number in range(3, 7):
        await add(shelf, f"m{number}", now_ms=number)

    found = await states(shelf)

    assert {"m0", "m1", "m6"} <= found.keys()
    assert len(found) <= 5
