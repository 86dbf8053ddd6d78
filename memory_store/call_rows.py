"""Call records as rows."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from sqlalchemy.dialects.postgresql import insert

from governor.amounts import Amounts
from governor.call import CallRecord
from governor.usage import Usage
from memory_store.curve_rows import curve_text
from memory_store.rows import UNIT_NAMES, amounts_json, json_of
from memory_store.statement import Driver, Statement, Value
from memory_store.tables import calls

# The first record of a call stands; a second one must not undo a settlement.
_INSERT = Statement(insert(calls).on_conflict_do_nothing(index_elements=["call_id"]))


def insert_calls(driver: Driver, rows: Sequence[Mapping[str, Value]]) -> None:
    """Store the records, in the transaction that ends their reservations."""
    _INSERT.run_many(driver, rows)


def call_row(record: CallRecord, charged: Amounts) -> dict[str, Value]:
    """Return `record` as the columns of its row."""
    usage, by_unit = record.usage, charged.by_unit
    return {
        "call_id": record.call_id,
        "kind": record.kind.value,
        "name": record.name,
        "tenant": record.chain.tenant,
        "agent": record.chain.agent,
        "session": record.chain.session,
        "turn": record.turn,
        "status": record.status.value,
        "started_at_ms": record.started_at_ms,
        "ended_at_ms": record.ended_at_ms,
        "arguments": _storable(record.arguments),
        "backend": record.backend,
        "rule": record.rule,
        "policy_version": record.policy_version,
        "estimate": amounts_json(record.estimate),
        "measured": None if usage is None else amounts_json(usage.measured),
        "unmeasured": None if usage is None else _reasons(usage),
        "memory_peak_bytes": None if usage is None else usage.memory_peak_bytes,
        "curve": None if usage is None or usage.curve is None else curve_text(usage.curve),
        "denial": None if record.denial is None else record.denial.value,
        "detail": _storable(record.detail),
        "isolated": None
        if record.isolated is None
        else _storable(json_of(asdict(record.isolated))),
        "result_bytes": record.result_bytes,
        "archive_id": record.archive_id,
        "arguments_hash": record.arguments_hash,
        "result_hash": record.result_hash,
        "price_version": record.price_version,
        "usage_source": record.usage_source,
        **{name: by_unit.get(unit, 0) for unit, name in UNIT_NAMES},
    }


def _reasons(usage: Usage) -> str:
    return _storable(json_of(dict(usage.unmeasured))) if usage.unmeasured else "{}"


def _storable(text: str) -> str:
    """Return `text` with what a database cannot hold written as escapes.

    No UTF-8 holds half of a surrogate pair, and no PostgreSQL a NUL. Some of the text is a
    stranger's, and a settlement must not fail for the words of its record.
    """
    held = text if text.isascii() else text.encode(errors="backslashreplace").decode()
    return held.replace("\0", r"\x00")
