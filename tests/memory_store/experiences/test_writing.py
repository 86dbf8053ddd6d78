"""Experiences on each database: kept byte for byte, read by index, corrected by others."""

import hashlib
from dataclasses import replace

import anyio
import pytest
from sqlalchemy import text

from governor.experience.chain import LogEvent, breaks_in, first_hash
from governor.experience.kinds import Standing, TrustLane
from governor.experience.quota import Exceeded, LaneLimit, LaneQuotas
from governor.experience.receipt import is_of
from governor.ids import ExperienceId, NamespaceId, SessionId
from memory_store.errors import (
    AlreadyExistsError,
    ExperienceNotFoundError,
    ExperienceQuotaError,
    ExperienceRevokedError,
    ExperienceSupersededError,
    ExperienceTooLargeError,
    InvalidExperienceError,
    NamespaceNotFoundError,
    UnstorableError,
)
from memory_store.experiences.values import WriteLimits, Written
from memory_store.store import Store
from tests.memory_store.experiences.makers import (
    ACME,
    BOB,
    BY,
    GLOBEX,
    NOW,
    draft,
    ids,
    one,
    space_of,
    standings,
    wrote,
)

pytestmark = pytest.mark.anyio

BLOB = bytes(range(256)) * 64


@pytest.mark.requirement("memory.byte-for-byte")
@pytest.mark.parametrize(
    "content", [b"", b"\xff\x00\xfe not UTF-8 \x00", b"x" * 4096, b"y" * 4097, BLOB]
)
async def test_what_was_written_is_read_byte_for_byte_with_a_receipt(
    kept: Store, space: NamespaceId, content: bytes
) -> None:
    (written,) = await wrote(kept, draft("a", space, content=content, call="call_1"))

    read = await kept.experiences.content(ids("a")[0], tenant=ACME)

    assert read.content == content
    assert read.receipt.address == hashlib.sha256(content).hexdigest() == written.address
    assert is_of(read.receipt, content)
    finding = await kept.experiences.proves(read.receipt)
    assert (finding.is_genuine, finding.is_logged, finding.is_erased) == (True, True, False)


async def test_an_experience_is_read_as_it_was_drafted(kept: Store, space: NamespaceId) -> None:
    made = draft("a", space, call="call_1", valid_until_ms=NOW + 9)
    await wrote(kept, made)

    found = await one(kept, "a")

    stated = {
        name: getattr(found, name) for name in made.draft.__dataclass_fields__ if name != "content"
    }
    assert stated == {name: getattr(made.draft, name) for name in stated}
    assert (found.tokens, found.superseded_by) == (7, None)


async def test_a_part_of_a_content_is_cut_from_a_whole_that_was_checked(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("a", space, content=BLOB))

    read = await kept.experiences.content(ids("a")[0], tenant=ACME, offset=10, length=5)
    beyond = await kept.experiences.content(ids("a")[0], tenant=ACME, offset=10**9)

    assert (read.content, read.offset, read.receipt.size_bytes) == (BLOB[10:15], 10, len(BLOB))
    assert beyond.content == b""


@pytest.mark.requirement("memory.receipts")
async def test_a_receipt_that_was_changed_proves_nothing(kept: Store, space: NamespaceId) -> None:
    await wrote(kept, draft("a", space), draft("b", space))
    receipt = (await kept.experiences.content(ids("a")[0], tenant=ACME)).receipt
    other = await kept.experiences.content(ids("b")[0], tenant=ACME)

    forged = [
        replace(receipt, address=other.receipt.address),
        replace(receipt, entry_number=other.receipt.entry_number),
        replace(receipt, tenant=GLOBEX),
        replace(receipt, signature="0" * 64),
    ]

    findings = [await kept.experiences.proves(one) for one in forged]
    assert [found.is_genuine for found in findings] == [False] * 4


@pytest.mark.requirement("memory.chained-log")
async def test_the_log_of_a_tenant_is_chained_without_gaps(kept: Store, space: NamespaceId) -> None:
    elsewhere = await space_of(kept, tenant=GLOBEX)
    await wrote(kept, draft("a", space), draft("b", space))
    await wrote(kept, draft("z", elsewhere, tenant=GLOBEX))
    await wrote(kept, draft("c", space, supersedes="a"))

    entries = await kept.experiences.log_since(ACME, number=0)
    later = await kept.experiences.log_since(ACME, number=2, most=1)

    assert [entry.number for entry in entries] == [1, 2, 3, 4]
    assert [entry.event for entry in entries] == [LogEvent.WRITTEN] * 3 + [LogEvent.MARKED]
    assert breaks_in(entries, after_number=0, after_hash=first_hash(ACME)) == []
    assert later == entries[2:3]
    changed = [entries[0], replace(entries[1], at_ms=1), *entries[2:]]
    assert breaks_in(changed, after_number=0, after_hash=first_hash(ACME)) == [
        "entry 2 is not what was logged"
    ]
    assert breaks_in([entries[0], *entries[2:]], after_number=0, after_hash=first_hash(ACME)) == [
        "entry 2 is missing",
        "entry 3 is not what was logged",
    ]


@pytest.mark.requirement("memory.idempotent-writes")
async def test_what_a_call_wrote_already_is_not_written_again(
    kept: Store, space: NamespaceId
) -> None:
    (first,) = await wrote(kept, draft("a", space, call="call_1", content=BLOB))

    (again,) = await wrote(kept, draft("b", space, call="call_1", content=BLOB))
    (same_id,) = await wrote(kept, draft("a", space, content=BLOB))
    twice = await wrote(kept, draft("c", space, call="call_2"), draft("c", space, call="call_2"))
    (other_call,) = await wrote(kept, draft("d", space, call="call_3", content=BLOB))

    assert again == replace(first, is_new=False) == same_id
    assert twice[0] == twice[1]
    assert other_call.is_new
    assert len(await kept.experiences.log_since(ACME, number=0)) == 3
    with pytest.raises(AlreadyExistsError):
        await wrote(kept, draft("a", space, content=b"something else"))


@pytest.mark.requirement("memory.supersede")
async def test_a_correction_stands_in_the_place_of_what_it_corrects(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("old", space, valid_from_ms=10, valid_until_ms=900))

    await wrote(kept, draft("new", space, supersedes="old", valid_from_ms=500))

    old, new = await one(kept, "old"), await one(kept, "new")
    assert (old.standing, old.superseded_by) == (Standing.SUPERSEDED, new.experience_id)
    assert (old.valid_from_ms, old.valid_until_ms, old.superseded_at_ms) == (10, 500, NOW)
    assert (await kept.experiences.content(ids("old")[0], tenant=ACME)).content == (
        b"what old is about"
    )
    with pytest.raises(ExperienceSupersededError):
        await wrote(kept, draft("late", space, supersedes="old"))
    await wrote(kept, draft("newer", space, supersedes="new"))
    assert await standings(kept, "old", "new", "newer") == [
        Standing.SUPERSEDED,
        Standing.SUPERSEDED,
        Standing.ACTIVE,
    ]


async def test_what_nobody_vouches_for_corrects_nothing_until_it_is_promoted(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("old", space))
    await wrote(kept, draft("new", space, supersedes="old", standing=Standing.QUARANTINED))
    await wrote(kept, draft("idle", space, supersedes="old", takes_effect=False))
    before = await standings(kept, "old", "new", "idle")

    await kept.experiences.mark(ids("new"), Standing.ACTIVE, tenant=ACME, **BY)
    promoted = await standings(kept, "old", "new")
    await kept.experiences.mark(ids("new"), Standing.REVOKED, tenant=ACME, **BY)

    assert before == [Standing.ACTIVE, Standing.QUARANTINED, Standing.ACTIVE]
    assert promoted == [Standing.SUPERSEDED, Standing.ACTIVE]
    assert await standings(kept, "old", "new") == [Standing.ACTIVE, Standing.REVOKED]
    assert (await one(kept, "old")).valid_until_ms is None


async def test_an_index_of_another_tenant_is_answered_like_one_that_is_not_there(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("a", space))
    elsewhere = await space_of(kept, tenant=GLOBEX)

    refused = []
    for name in ("a", "nobody"):
        for attempt in (
            kept.experiences.get(ids(name), tenant=GLOBEX),
            kept.experiences.content(ids(name)[0], tenant=GLOBEX),
            kept.experiences.contents(ids(name), tenant=GLOBEX, bytes_max=9),
            kept.experiences.neighbours(ids(name)[0], tenant=GLOBEX),
            kept.experiences.mark(ids(name), Standing.REVOKED, tenant=GLOBEX, **BY),
            wrote(kept, draft("b", elsewhere, tenant=GLOBEX, supersedes=name)),
            wrote(kept, draft("b", elsewhere, tenant=GLOBEX, made_of=(name,))),
        ):
            with pytest.raises(ExperienceNotFoundError) as error:
                await attempt
            refused.append(str(error.value))

    assert set(refused) == {"There is no such experience."}
    # Nor does a conflict tell: ids are of the tenant.
    (mine,) = await wrote(kept, draft("a", elsewhere, tenant=GLOBEX, content=b"mine"))
    assert mine.is_new


async def test_a_namespace_of_another_tenant_is_not_written_to(
    kept: Store, space: NamespaceId
) -> None:
    with pytest.raises(NamespaceNotFoundError):
        await wrote(kept, draft("a", space, tenant=GLOBEX))
    with pytest.raises(NamespaceNotFoundError):
        await wrote(kept, draft("a", NamespaceId("ns_nowhere")))


@pytest.mark.requirement("memory.bad-input")
@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"experience_id": ExperienceId("exp/..")}, InvalidExperienceError),
        ({"experience_id": ExperienceId("")}, InvalidExperienceError),
        ({"session": SessionId("ses\x00")}, UnstorableError),
        ({"session": SessionId("ses\ud800")}, UnstorableError),
        ({"valid_until_ms": NOW - 1}, InvalidExperienceError),
        ({"outcome": 1.5}, InvalidExperienceError),
        ({"learned_at_ms": 2**63}, UnstorableError),
        ({"cost_microusd": -1}, UnstorableError),
        ({"summary": "x" * 4_001}, InvalidExperienceError),
        ({"tags": ("x" * 1_001,)}, InvalidExperienceError),
    ],
)
async def test_a_draft_that_cannot_be_kept_is_refused_and_the_rest_goes_on(
    kept: Store, space: NamespaceId, changed: dict[str, object], error: type[Exception]
) -> None:
    good = draft("a", space)
    bad = replace(good, draft=replace(good.draft, **changed))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(kept.experiences.write, (draft("b", space),))
        with pytest.raises(error):
            await kept.experiences.write((good, bad))

    assert await standings(kept, "b") == [Standing.ACTIVE]
    with pytest.raises(ExperienceNotFoundError):
        await one(kept, "a")


@pytest.mark.requirement("memory.bad-input")
async def test_text_that_a_database_cannot_hold_is_kept_as_one_that_it_can(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("a", space, summary="a\x00b\ud800c", terms="a\x00b", content=b"\x00"))

    found = await one(kept, "a")

    assert found.summary == "a\u2400b\\ud800c"
    assert (await kept.experiences.content(ids("a")[0], tenant=ACME)).content == b"\x00"


@pytest.mark.requirement("memory.bad-input")
async def test_a_content_above_the_limit_is_refused_with_what_to_do(
    kept: Store, space: NamespaceId
) -> None:
    limits = WriteLimits(content_bytes_max=100)

    with pytest.raises(ExperienceTooLargeError, match=r"101 bytes are above the 100.*in parts"):
        await kept.experiences.write((draft("a", space, content=b"x" * 101),), limits=limits)
    with pytest.raises(ExperienceTooLargeError):
        await kept.experiences.write((draft("a", space, content=bytes(100 * 1024 * 1024)),))


@pytest.mark.requirement("memory.bad-input")
async def test_clocks_that_disagree_neither_reorder_nor_lose_what_was_written(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("first", space, learned_at_ms=NOW, valid_from_ms=NOW))
    await wrote(kept, draft("behind", space, learned_at_ms=5, valid_from_ms=5))
    await wrote(kept, draft("ahead", space, learned_at_ms=2**60, valid_from_ms=2**60))

    found = await kept.experiences.of_session(SessionId("ses_a"), tenant=ACME, namespaces=(space,))

    assert [one.experience_id for one in found] == list(ids("first", "behind", "ahead"))


async def test_a_batch_is_stored_whole_or_not_at_all(kept: Store, space: NamespaceId) -> None:
    with pytest.raises(ExperienceNotFoundError):
        await wrote(kept, draft("a", space, content=BLOB), draft("b", space, made_of=("nobody",)))

    with pytest.raises(ExperienceNotFoundError):
        await one(kept, "a")
    assert await kept.experiences.log_since(ACME, number=0) == ()


async def test_drafts_of_one_write_may_be_made_of_one_another(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("a", space), draft("b", space, made_of=("a",)))

    assert (await one(kept, "b")).provenance.derived_from == ids("a")


async def test_nothing_is_made_of_what_was_revoked(kept: Store, space: NamespaceId) -> None:
    await wrote(kept, draft("a", space))
    await kept.experiences.mark(ids("a"), Standing.REVOKED, tenant=ACME, **BY)

    with pytest.raises(ExperienceRevokedError):
        await wrote(kept, draft("b", space, made_of=("a",)))


@pytest.mark.requirement("memory.room")
async def test_what_does_not_fit_is_refused_with_what_to_do(
    kept: Store, space: NamespaceId
) -> None:
    await wrote(kept, draft("a", space, content=b"x" * 60))
    (b,) = (draft("b", space, content=b"x" * 60),)

    with pytest.raises(ExperienceQuotaError, match="tenant's bytes would be 120 of at most 100"):
        await kept.experiences.write((b,), limits=WriteLimits(tenant_bytes_max=100))
    with pytest.raises(ExperienceQuotaError, match="items would be 2 of at most 1; erase some"):
        await kept.experiences.write((b,), limits=WriteLimits(tenant_items_max=1))
    await kept.namespaces.limit(space, 100, tenant=ACME)
    with pytest.raises(ExperienceQuotaError, match="namespace's bytes"):
        await wrote(kept, b)

    await kept.experiences.erase(ids=ids("a"), tenant=ACME, **BY)
    await wrote(kept, b)
    (usage,) = await kept.namespaces.usage(tenant=ACME)
    assert (usage.items, usage.content_bytes, usage.lane) == (1, 60, TrustLane.AGENT)


async def test_a_writer_that_is_above_a_lanes_quota_is_answered_and_others_write_on(
    kept: Store, space: NamespaceId
) -> None:
    quotas = LaneQuotas(limits={TrustLane.WEB: LaneLimit(writes_max=2)}, window_ms=1_000)
    limits = WriteLimits(lanes=quotas, now_ms=10_500)
    web = [draft(f"w{n}", space, lane=TrustLane.WEB) for n in range(3)]

    results = await kept.experiences.write(
        (*web, draft("a", space), draft("b", space, lane=TrustLane.WEB, writer=BOB)),
        limits=limits,
    )
    behind = await kept.experiences.write(
        (draft("late", space, lane=TrustLane.WEB),), limits=replace(limits, now_ms=9_000)
    )
    next_window = await kept.experiences.write(
        (draft("w2", space, lane=TrustLane.WEB),), limits=replace(limits, now_ms=11_000)
    )

    assert [isinstance(one, Exceeded) for one in results] == [False, False, True, False, False]
    (exceeded,) = (one for one in results if isinstance(one, Exceeded))
    assert (exceeded.limit, exceeded.used, exceeded.resets_at_ms) == (2, 2, 11_000)
    assert isinstance(behind[0], Exceeded), "a clock that is behind opens no new window"
    assert isinstance(next_window[0], Written)


async def test_a_lane_is_only_as_trusted_as_its_signature(kept: Store, space: NamespaceId) -> None:
    await wrote(kept, draft("rule", space, lane=TrustLane.OPERATOR), draft("note", space))
    before = (await one(kept, "rule")).lane

    changed = text("UPDATE experiences SET lane = 'operator'")
    await kept.writer.run(lambda connection: connection.execute(changed).close())

    assert before is TrustLane.OPERATOR
    assert (await one(kept, "rule")).lane is TrustLane.OPERATOR
    assert (await one(kept, "note")).lane is TrustLane.WEB
    (page,) = [
        one
        for one in (await kept.experiences.page(tenant=ACME)).items
        if one.experience_id == "exp_note"
    ]
    assert page.lane is TrustLane.WEB
    assert (await kept.experiences.content(ids("note")[0], tenant=ACME)).experience.lane is (
        TrustLane.WEB
    )
