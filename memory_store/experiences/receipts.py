"""Receipts made of what is kept, and compared with it."""

from sqlalchemy import Connection, bindparam, select

from governor.experience.receipt import Receipt, is_genuine, signed
from memory_store.engine import driver_of
from memory_store.experiences.heads import Head, read_head
from memory_store.experiences.rows import Kept
from memory_store.experiences.tables import experience_log, experiences
from memory_store.experiences.values import ReceiptFinding
from memory_store.statement import Statement

_log, _rows = experience_log.c, experiences.c
_ENTRY = Statement(
    select(_log.hash).where(_log.tenant == bindparam("tenant"), _log.number == bindparam("number"))
)
_IS_THERE = Statement(
    select(_rows.number).where(
        _rows.tenant == bindparam("tenant"), _rows.experience_id == bindparam("experience_id")
    )
)


def receipt_of(kept: Kept, head: Head) -> Receipt:
    """Return the receipt for an experience that is read when the log ends at `head`."""
    experience = kept.experience
    receipt = Receipt(
        experience_id=experience.experience_id,
        tenant=experience.tenant,
        address=experience.address,
        size_bytes=experience.size_bytes,
        entry_number=kept.entry_number,
        entry_hash=kept.entry_hash,
        head_number=head.number,
        head_hash=head.hash,
    )
    return signed(receipt, secret=head.secret)


def finding_of(connection: Connection, *, receipt: Receipt) -> ReceiptFinding:
    """Return what a receipt proves."""
    driver = driver_of(connection)
    head = read_head(driver, receipt.tenant)
    if head is None or not is_genuine(receipt, secret=head.secret):
        return ReceiptFinding(is_genuine=False, is_logged=False, is_erased=False)
    claimed = (
        (receipt.entry_number, receipt.entry_hash),
        (receipt.head_number, receipt.head_hash),
    )
    found = [
        _ENTRY.row(driver, {"tenant": receipt.tenant, "number": number}) for number, _ in claimed
    ]
    is_logged = all(
        row is not None and row[0] == hash_ for row, (_, hash_) in zip(found, claimed, strict=True)
    )
    asked = {"tenant": receipt.tenant, "experience_id": receipt.experience_id}
    is_erased = _IS_THERE.row(driver, asked) is None
    return ReceiptFinding(is_genuine=True, is_logged=is_logged, is_erased=is_erased)
