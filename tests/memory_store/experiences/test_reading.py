"""Experiences on each database: listed, found beside others, read many at a time, used."""

from dataclasses import replace

import pytest

from governor.experience.kinds import Standing, TrustLane
from governor.ids import ExperienceId, NamespaceId, SessionId
from memory_store.errors import (
    ExperienceNotFoundError,
    InvalidExperienceError,
)
from memory_store.experiences.values import UseNote
from memory_store.store import Store
from tests.memory_store.experiences.makers import (
    ACME,
    BOB,
    GLOBEX,
    NOW,
    draft,
    ids,
    space_of,
    wrote,
)

pytestmark = pytest.mark.anyio

BLOB = bytes(range(256)) * 64


async def test_what_has_run_out_is_not_there_for_who_says_the_time(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("a", space, expires_at_ms=NOW + 10))

    assert await kept.experiences.get(ids("a"), tenant=ACME, now_ms=NOW + 9)
    for attempt in (
        kept.experiences.get(ids("a"), tenant=ACME, now_ms=NOW + 10),
        kept.experiences.content(ids("a")[0], tenant=ACME, now_ms=NOW + 10),
        kept.experiences.neighbours(ids("a")[0], tenant=ACME, now_ms=NOW + 10),
    ):
        with pytest.raises(ExperienceNotFoundError):
            await attempt


async def test_what_has_run_out_is_not_listed_for_who_says_the_time(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("before", space), draft("gone", space, expires_at_ms=NOW + 10))
    await wrote(kept, draft("a", space), draft("still", space, expires_at_ms=NOW + 11))
    book, session, now_ms = kept.experiences, SessionId("ses_a"), NOW + 10

    near = await book.neighbours(ids("a")[0], tenant=ACME, before=1, after=1, now_ms=now_ms)
    said = await book.of_session(session, tenant=ACME, namespaces=(space,), now_ms=now_ms)
    page = await book.page(tenant=ACME, now_ms=now_ms)
    whole = await book.page(tenant=ACME)

    assert [one.experience_id for one in near] == list(ids("before", "still"))
    assert [one.experience_id for one in said] == list(ids("before", "a", "still"))
    assert [one.experience_id for one in page.items] == list(ids("still", "a", "before"))
    assert len(whole.items) == 4


async def test_pages_go_from_the_latest_to_the_first(kept: Store, space: NamespaceId) -> None:
    other = await space_of(kept, name="team/blue")
    await wrote(kept, *(draft(f"n{n}", space) for n in range(5)))
    await wrote(kept, draft("q", other, standing=Standing.QUARANTINED, writer=BOB))

    first = await kept.experiences.page(tenant=ACME, namespace=space, limit=3)
    rest = await kept.experiences.page(tenant=ACME, namespace=space, limit=3, cursor=first.next)
    aside = await kept.experiences.page(tenant=ACME, standing=Standing.QUARANTINED)
    his = await kept.experiences.page(tenant=ACME, writer=BOB, lane=TrustLane.AGENT)

    found = [one.experience_id for one in (*first.items, *rest.items)]
    assert found == list(ids("n4", "n3", "n2", "n1", "n0"))
    assert rest.next is None
    assert [one.experience_id for one in aside.items] == list(ids("q"))
    assert his.items == aside.items
    assert (await kept.experiences.page(tenant=GLOBEX)).items == ()


async def test_neighbours_are_of_the_same_session_and_namespace(
    kept: Store, space: NamespaceId
) -> None:
    other = await space_of(kept, name="team/blue")
    await wrote(kept, draft("a", space), draft("b", space), draft("alien", other))
    await wrote(kept, draft("c", space), draft("d", space, session="ses_b"), draft("e", space))

    around = await kept.experiences.neighbours(ids("c")[0], tenant=ACME, before=1, after=5)
    alone = await kept.experiences.neighbours(ids("d")[0], tenant=ACME, before=5, after=5)

    assert [one.experience_id for one in around] == list(ids("b", "e"))
    assert alone == ()
    session = SessionId("ses_a")
    mine = await kept.experiences.of_session(session, tenant=ACME, namespaces=(space,), since=1)
    assert [one.experience_id for one in mine] == list(ids("b", "c", "e"))


async def test_small_contents_are_read_many_at_a_time(kept: Store, space: NamespaceId) -> None:
    await wrote(kept, draft("a", space, content=b"abc"), draft("b", space, content=BLOB))

    assert await kept.experiences.contents(ids("b", "a"), tenant=ACME, bytes_max=9) == (
        None,
        b"abc",
    )
    assert await kept.experiences.contents(ids("a"), tenant=ACME, bytes_max=2) == (None,)


async def test_who_used_an_experience_is_noted(kept: Store, space: NamespaceId) -> None:
    await wrote(kept, draft("a", space))
    note = UseNote(
        experience_id=ids("a")[0], reader=BOB, at_ms=NOW, session=SessionId("s"), used=True, score=1
    )
    lost = replace(note, experience_id=ExperienceId("exp_nobody"))

    assert await kept.experiences.note_use((note, lost), tenant=ACME) == 1
    assert await kept.experiences.note_use((note,), tenant=GLOBEX) == 0

    assert await kept.experiences.uses_of(ids("a"), tenant=ACME) == (note,)
    assert await kept.experiences.uses_of(ids("a"), tenant=GLOBEX) == ()
    with pytest.raises(InvalidExperienceError):
        await kept.experiences.note_use((replace(note, score=2),), tenant=ACME)
