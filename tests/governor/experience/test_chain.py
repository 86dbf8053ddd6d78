"""Entries, digests and receipts: whatever is changed of them is seen."""

from dataclasses import fields, replace
from enum import Enum
from typing import Any

import pytest

from governor.experience.chain import LogEntry, LogEvent, breaks_in, digest_of, entry_hash
from governor.experience.experience import Experience, Provenance
from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.receipt import Receipt, is_genuine, is_of, signed
from governor.ids import ExperienceId, NamespaceId, PrincipalId, TenantId

ENTRY = LogEntry(
    tenant=TenantId("acme"),
    number=3,
    at_ms=5,
    event=LogEvent.WRITTEN,
    experience_id=ExperienceId("exp_a"),
    experience_number=7,
    namespace=NamespaceId("ns_a"),
    standing=Standing.ACTIVE,
    digest="d",
    by="root",
    why="w",
    hash="",
)
EXPERIENCE = Experience(
    experience_id=ExperienceId("exp_a"),
    number=7,
    tenant=TenantId("acme"),
    namespace=NamespaceId("ns_a"),
    kind=ExperienceKind.FACT,
    lane=TrustLane.AGENT,
    standing=Standing.ACTIVE,
    address="ab",
    size_bytes=2,
    tokens=1,
    media_type="text/plain",
    summary="s",
    provenance=Provenance(writer=PrincipalId("ada"), derived_from=(ExperienceId("exp_b"),)),
    learned_at_ms=1,
    valid_from_ms=1,
    valid_until_ms=None,
    actor="a",
    session=None,
    task_class=None,
    tags=("x", "y"),
    cost_microusd=None,
    outcome=None,
    supersedes=None,
    superseded_by=None,
    expires_at_ms=None,
    signature="sig",
)
# What happens to an experience later, and what is derived from it.
NOT_COVERED = {"standing", "tokens", "superseded_by", "superseded_at_ms", "stated_until_ms"}
RECEIPT = Receipt(
    experience_id=ExperienceId("exp_a"),
    tenant=TenantId("acme"),
    address="ab",
    size_bytes=2,
    entry_number=3,
    entry_hash="h",
    head_number=9,
    head_hash="i",
)


def other_than(value: Any) -> Any:
    match value:
        case Enum():
            (other, *_) = (one for one in type(value) if one is not value)
            return other
        case None | str():
            return f"{value or ''}1"
        case int():
            return value + 1
        case tuple():
            return value[:-1]
        case _:
            return replace(value, source="elsewhere")


@pytest.mark.parametrize("name", [one.name for one in fields(LogEntry) if one.name != "hash"])
def test_an_entry_covers_each_of_its_fields(name: str) -> None:
    changed = replace(ENTRY, **{name: other_than(getattr(ENTRY, name))})

    assert entry_hash("before", changed) != entry_hash("before", ENTRY)
    assert entry_hash("another", ENTRY) != entry_hash("before", ENTRY)


@pytest.mark.parametrize("name", [one.name for one in fields(Experience)])
def test_a_digest_covers_all_that_never_changes_of_an_experience(name: str) -> None:
    before = getattr(EXPERIENCE, name)
    changed = replace(EXPERIENCE, **{name: other_than(before)})

    same = digest_of(changed, secret=b"k", salt=b"s") == digest_of(
        EXPERIENCE, secret=b"k", salt=b"s"
    )

    assert same is (name in NOT_COVERED)


def test_a_digest_tells_nothing_without_its_salt_and_the_secret() -> None:
    digests = {
        digest_of(EXPERIENCE, secret=secret, salt=salt)
        for secret in (b"one", b"two")
        for salt in (b"salt", b"pepper")
    }

    assert len(digests) == 4


def test_parts_of_a_list_do_not_run_into_one_another() -> None:
    lists = [("xy",), ("x", "y"), ("x", "", "y"), ("", "xy"), ()]

    digests = {digest_of(replace(EXPERIENCE, tags=tags), secret=b"k", salt=b"s") for tags in lists}
    moved = replace(EXPERIENCE, tags=("x",), cost_microusd=None, outcome=None)
    digests.add(digest_of(moved, secret=b"k", salt=b"s"))

    assert len(digests) == len(lists) + 1


def test_a_chain_shows_where_it_was_broken() -> None:
    first = replace(ENTRY, number=1)
    first = replace(first, hash=entry_hash("start", first))
    second = replace(ENTRY, number=2)
    second = replace(second, hash=entry_hash(first.hash, second))

    assert breaks_in([first, second], after_number=0, after_hash="start") == []
    assert breaks_in([second], after_number=0, after_hash="start") == [
        "entry 1 is missing",
        "entry 2 is not what was logged",
    ]
    assert breaks_in([replace(first, digest="e"), second], after_number=0, after_hash="start") == [
        "entry 1 is not what was logged"
    ]


@pytest.mark.parametrize("name", [one.name for one in fields(Receipt)])
def test_a_receipt_is_genuine_only_as_it_was_signed(name: str) -> None:
    genuine = signed(RECEIPT, secret=b"k")
    forged = replace(genuine, **{name: other_than(getattr(genuine, name))})

    assert is_genuine(genuine, secret=b"k")
    assert not is_genuine(genuine, secret=b"another")
    assert not is_genuine(forged, secret=b"k")
    assert not is_genuine(replace(genuine, signature="ä"), secret=b"k")


def test_a_receipt_is_of_one_content() -> None:
    address = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
    receipt = replace(RECEIPT, address=address, size_bytes=5)

    assert is_of(receipt, b"hello")
    assert not is_of(receipt, b"hallo")
    assert not is_of(replace(receipt, size_bytes=6), b"hello")
