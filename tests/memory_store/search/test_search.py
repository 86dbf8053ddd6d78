from typing import Any

import anyio
import pytest
from contracts.builders import AGENT, TENANT

from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.search import MemoryTier
from governor.ids import ExperienceId, SessionId, TaskClass, TenantId
from memory_store.audit import Actor
from memory_store.errors import SearchTooWideError
from memory_store.search.search import LEFT_OUT_MAX, NAMESPACES_MAX
from memory_store.store import Store
from tests.memory_store.search.search_makers import NOW_MS, asked, indexed, keep, space, summaries

pytestmark = pytest.mark.anyio

TEXTS = (
    "The cat slept on the warm carpet all afternoon",
    "A dog barked at the moon and woke the neighbours",
    "The invoice of the printer was paid on Friday",
    "我昨天去了北京看长城",
)
WITHDRAWN: dict[str, dict[str, Any]] = {"by": "root", "why": "test", "now_ms": NOW_MS}


@pytest.mark.requirement("memory.search-finds")
async def test_a_text_is_found_by_its_words_its_meaning_and_in_chinese(store: Store) -> None:
    one = await space(store)
    await keep(store, [indexed(text, namespace=one) for text in TEXTS])

    assert (await summaries(store, asked("Which invoices were paid?", one)))[0] == TEXTS[2]
    assert (await summaries(store, asked("kitten on a rug", one)))[0] == TEXTS[0]
    assert await summaries(store, asked("北京", one)) == [TEXTS[3]]


async def test_without_vectors_words_alone_find(store: Store) -> None:
    one = await space(store)
    await keep(store, [indexed(text, namespace=one) for text in TEXTS])

    for fields in ({"use_vectors": False}, {"tier": MemoryTier.LOW}):
        assert await summaries(store, asked("kitten", one, **fields)) == []
        assert await summaries(store, asked("dogs", one, **fields)) == [TEXTS[1]]


async def test_the_nearest_are_by_meaning_alone(store: Store) -> None:
    one = await space(store)
    await keep(store, [indexed(text, namespace=one) for text in TEXTS])

    found = await store.experience_search.nearest(asked("the puppy howled", one, most=1))

    (hit,) = found.hits
    assert hit.experience.summary == TEXTS[1]
    assert 0 < hit.score <= 1


@pytest.mark.requirement("memory.search-sees-writes")
async def test_what_was_written_is_found_by_the_next_search(store: Store) -> None:
    one = await space(store)
    assert await summaries(store, asked("zebra", one)) == []

    for number in range(5):
        await keep(store, [indexed(f"zebra {number}", namespace=one)])

        assert len(await summaries(store, asked("zebra", one, most=50))) == number + 1


async def _erased(store: Store, kept: ExperienceId) -> None:
    await store.experiences.erase(tenant=TENANT, ids=(kept,), **WITHDRAWN)


async def _of_writer_revoked(store: Store, _: ExperienceId) -> None:
    await store.experiences.revoke_writer(AGENT, tenant=TENANT, **WITHDRAWN)


async def _quarantined(store: Store, kept: ExperienceId) -> None:
    await store.experiences.mark((kept,), Standing.QUARANTINED, tenant=TENANT, **WITHDRAWN)


async def _superseded(store: Store, kept: ExperienceId) -> None:
    one = await space(store)
    await keep(store, [indexed("Nothing of it was so", namespace=one, supersedes=kept)])


@pytest.mark.requirement("memory.search-forgets")
async def test_what_does_not_stand_any_more_is_not_found(store: Store) -> None:
    one = await space(store)
    for withdraw in (_erased, _quarantined, _superseded, _of_writer_revoked):
        text = f"The dog barked until {withdraw.__name__}"
        (kept,) = await keep(store, [indexed(text, namespace=one)])
        search = asked(text, one)
        assert text in await summaries(store, search)

        await withdraw(store, kept)

        assert text not in await summaries(store, search)
        near = await store.experience_search.nearest(search)
        assert text not in [hit.experience.summary for hit in near.hits]


@pytest.mark.requirement("memory.search-as-of")
async def test_what_was_corrected_since_is_found_as_of_when_it_was_true_or_thought_so(
    store: Store,
) -> None:
    one = await space(store)
    old, new = "The dog lives in Rome", "The dog lives in Oslo"
    (kept,) = await keep(store, [indexed(old, namespace=one, learned_at_ms=10, valid_from_ms=5)])
    # Heard at 100: since 50 it is otherwise.
    moved = {"learned_at_ms": 100, "valid_from_ms": 50, "supersedes": kept}
    await keep(store, [indexed(new, namespace=one, **moved)])

    async def told(**times: int) -> list[str]:
        search = asked("Where does the dog live?", one, **times)
        near = await store.experience_search.nearest(search)
        found = sorted(await summaries(store, search))
        assert sorted(hit.experience.summary for hit in near.hits) == found
        return found

    assert await told() == [new]
    assert await told(at_ms=60) == [new]
    assert await told(at_ms=49) == [old], "true then, as is known now"
    assert await told(at_ms=60, learned_before_ms=100) == [old], "as was thought then"
    assert await told(learned_before_ms=100) == [old]
    assert await told(learned_before_ms=101) == [new]
    assert await told(at_ms=49, learned_before_ms=101) == [old]
    assert await told(at_ms=4) == []
    assert await told(learned_before_ms=10) == []


async def test_what_is_promoted_out_of_quarantine_is_found(store: Store) -> None:
    one = await space(store)
    draft = indexed(TEXTS[1], namespace=one, standing=Standing.QUARANTINED)
    (kept,) = await keep(store, [draft])
    assert await summaries(store, asked("dog", one)) == []

    await store.experiences.mark((kept,), Standing.ACTIVE, tenant=TENANT, **WITHDRAWN)

    assert await summaries(store, asked("dog", one)) == [TEXTS[1]]


async def test_what_has_run_out_is_not_found(store: Store) -> None:
    one = await space(store)
    await keep(store, [indexed(TEXTS[1], namespace=one, expires_at_ms=NOW_MS)])

    assert await summaries(store, asked("dog", one, now_ms=NOW_MS - 1)) == [TEXTS[1]]
    assert await summaries(store, asked("dog", one, now_ms=NOW_MS)) == []


@pytest.mark.requirement("memory.search-tenants")
async def test_nothing_of_another_tenant_is_found_even_by_the_name_of_its_namespace(
    store: Store,
) -> None:
    other = TenantId("other")
    await store.tenants.create(other, name="Other", by=Actor(name="root"), now_ms=1)
    ours, theirs = await space(store), await space(store, tenant=other)
    await keep(store, [indexed(TEXTS[1], namespace=theirs, tenant=other)])
    await keep(store, [indexed(TEXTS[2], namespace=ours)])

    found = await summaries(store, asked("dog barked moon", ours, theirs))
    by_other = await summaries(store, asked("dog barked moon", ours, theirs, tenant=other))

    assert TEXTS[1] not in found
    assert by_other == [TEXTS[1]]


# What an experience has, a filter that it passes, and one that it does not.
FILTERED: tuple[tuple[dict[str, Any], dict[str, Any], dict[str, Any]], ...] = (
    ({"lane": TrustLane.TOOL}, {"lanes": (TrustLane.TOOL,)}, {"lanes": (TrustLane.USER,)}),
    ({"lane": TrustLane.WEB}, {"lanes": (TrustLane.WEB,)}, {}),
    (
        {"kind": ExperienceKind.LESSON},
        {"kinds": (ExperienceKind.LESSON, ExperienceKind.FACT)},
        {"kinds": (ExperienceKind.FACT,)},
    ),
    ({"actor": "Bob"}, {"actors": ("Eve", "Bob")}, {"actors": ("Eve",)}),
    ({"session": SessionId("s1")}, {"session": SessionId("s1")}, {"session": SessionId("s2")}),
    (
        {"task_class": TaskClass("c1")},
        {"task_class": TaskClass("c1")},
        {"task_class": TaskClass("c2")},
    ),
    ({"tags": ("red", "round")}, {"tags": ("round", "red")}, {"tags": ("red", "flat")}),
    ({"valid_from_ms": 50, "valid_until_ms": 60}, {"at_ms": 50}, {"at_ms": 60}),
    ({"valid_from_ms": 50}, {"at_ms": 60}, {"at_ms": 49}),
    ({"learned_at_ms": 70}, {"learned_before_ms": 71}, {"learned_before_ms": 70}),
    ({"learned_at_ms": 70}, {"learned_from_ms": 70}, {"learned_from_ms": 71}),
)


@pytest.mark.requirement("memory.search-filters")
async def test_filters_leave_out_what_they_do_not_name(store: Store) -> None:
    one = await space(store)
    drafts = [
        indexed(f"The dog of {number}", namespace=one, **fields)
        for number, (fields, _, _) in enumerate(FILTERED)
    ]
    await keep(store, drafts)

    for number, (_, passed, missed) in enumerate(FILTERED):
        summary = f"The dog of {number}"
        assert summary in await summaries(store, asked("dog", one, most=50, **passed)), passed
        assert summary not in await summaries(store, asked("dog", one, most=50, **missed)), missed


async def test_several_namespaces_are_put_in_one_order(store: Store) -> None:
    spaces = [await space(store, name) for name in ("one", "two", "three")]
    for namespace, text in zip(spaces, TEXTS[:3], strict=True):
        await keep(store, [indexed(text, namespace=namespace, session=SessionId("s"))])

    found = await summaries(store, asked("the dog barked, was the invoice paid", *spaces))

    assert set(found[:2]) == {TEXTS[1], TEXTS[2]}
    assert TEXTS[1] not in await summaries(store, asked("dog", spaces[0], spaces[2]))


async def test_a_namespace_of_which_nothing_may_be_found_changes_no_order(store: Store) -> None:
    one, empty, hidden = [await space(store, name) for name in ("one", "empty", "hidden")]
    await keep(store, [indexed(text, namespace=one, session=SessionId("s")) for text in TEXTS])
    await keep(store, [indexed(TEXTS[0], namespace=hidden, lane=TrustLane.WEB)])
    lanes = (TrustLane.AGENT,)

    search = store.experience_search.search
    alone = await search(asked("was the invoice of the dog paid", one, lanes=lanes))
    beside = await search(asked("was the invoice of the dog paid", one, empty, hidden, lanes=lanes))
    nowhere = await search(asked("was the invoice paid", empty, hidden, lanes=lanes))

    assert alone.hits
    assert beside == alone
    assert nowhere.hits == ()


async def test_too_many_namespaces_are_refused_with_how_many_may_be(store: Store) -> None:
    names = [(await space(store, f"n{number}")) for number in range(NAMESPACES_MAX + 1)]

    with pytest.raises(SearchTooWideError, match=f"at most {NAMESPACES_MAX}"):
        await store.experience_search.search(asked("dog", *names))


async def test_no_more_is_returned_than_asked_for_and_the_rest_is_counted(store: Store) -> None:
    one = await space(store)
    await store.experiences.write(
        tuple(indexed(f"dog number {number}", namespace=one) for number in range(130))
    )

    found = await store.experience_search.search(asked("dog", one, most=5))
    few = await store.experience_search.search(asked("dog", one, most=125))

    assert (len(found.hits), found.left_out) == (5, LEFT_OUT_MAX)
    assert (len(few.hits), few.left_out) == (125, 5)


HARMFUL = (
    "",
    " \t\n",
    "\0",
    "dog\0 OR moon",
    '"',
    "'); DROP TABLE experiences; --",
    'dog" NEAR("moon" *) AND NOT ^cat : {terms} + -',
    "experience_words:dog rank:1 a* *",
    "\\ ' : & | ! <-> (dog:*ABCD)",
    "\ud800\udfff half of a pair",
    "%s %(x)s {0} $1 ?1",
    "dog " * 100_000,
    "x" * 400_000,
    "".join(map(chr, range(0x20, 0x2000))),
)


@pytest.mark.requirement("memory.search-bad-input")
async def test_no_text_of_a_question_does_harm(store: Store) -> None:
    one = await space(store)
    await keep(store, [indexed(kept, namespace=one) for kept in TEXTS])

    with anyio.fail_after(120):
        for text in HARMFUL:
            found = await store.experience_search.search(asked(text, one))
            await store.experience_search.nearest(asked(text, one))

            assert len(found.hits) <= len(TEXTS)
            assert await summaries(store, asked("dog", one, use_vectors=False)) == [TEXTS[1]]


async def test_texts_that_index_badly_are_written_found_and_erased(store: Store) -> None:
    one = await space(store)
    odd = ["a 'b' \"c\" \\d :e", "\ud800 dog", "* OR NOT dog", "ünïcödé dog", "dog " * 20_000]
    kept = await keep(store, [indexed(text, namespace=one) for text in odd])

    assert len(await summaries(store, asked("dog", one))) >= len(odd) - 1
    await store.experiences.erase(tenant=TENANT, ids=tuple(kept), **WITHDRAWN)
    assert await summaries(store, asked("dog", one)) == []


async def test_writers_and_searchers_at_the_same_time_lose_nothing(store: Store) -> None:
    one = await space(store)
    missed: list[str] = []

    async def write(writer: int) -> None:
        for number in range(8):
            word = f"word{'abcdefgh'[writer]}{'abcdefgh'[number]}"
            await keep(store, [indexed(f"{word} was here", namespace=one)])
            if not await summaries(store, asked(word, one, use_vectors=False)):
                missed.append(word)

    with anyio.fail_after(120):
        async with anyio.create_task_group() as group:
            for writer in range(6):
                group.start_soon(write, writer)

    assert missed == []
    assert len(await summaries(store, asked("here", one, most=100))) == 48
