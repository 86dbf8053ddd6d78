"""The store's failures reach the gateway in the gateway's own words."""

from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import pytest

from governor.amounts import Unit
from governor.errors import InvalidTransitionError
from governor.ids import ArchiveId, CallId, PrincipalId, ReservationId, SessionId, TenantId
from governor.scope import ScopeChain, ScopeKind
from governor.window import Fixed
from memory_store.accounts import BalanceView
from memory_store.calls import GoodCall
from memory_store.errors import (
    ArchiveCorruptError,
    ArchiveNotFoundError,
    ArchiveTooLargeError,
    NotFoundError,
    StoreError,
    StoreOverloadedError,
    StoreUnavailableError,
    UnknownReservationError,
    UnstorableError,
)
from runtime.adapters import StoreArchive, StoreLedger, StoreUses
from tool_gateway.errors import (
    ArchiveDamagedError,
    ArchiveMissError,
    ArchiveUnavailableError,
    GatewayError,
    HoldEndedError,
    LedgerOverloadedError,
    LedgerUnavailableError,
)

pytestmark = pytest.mark.anyio

CHAIN = ScopeChain(
    tenant=TenantId("acme"), agent=PrincipalId("ada"), session=SessionId("ses_run-1")
)
CALL = CallId("call_1")
HOLD = ReservationId("res_1")
ENTRY = ArchiveId("arc_1")


class Failing:
    """Every part of a store at once; whatever is asked of it fails in one way."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __getattr__(self, _name: str) -> Callable[..., Awaitable[None]]:
        async def fail(*_arguments: object, **_named: object) -> None:
            raise self._error

        return fail


def ledger_that(error: Exception) -> StoreLedger:
    return StoreLedger(ledger=Failing(error), calls=Failing(error))


def archive_that(error: Exception) -> StoreArchive:
    return StoreArchive(Failing(error))


LEDGER_WAYS: dict[str, Callable[[StoreLedger], Awaitable[object]]] = {
    "admit": lambda ledger: ledger.admit(None),
    "forward": lambda ledger: ledger.forward(HOLD),
    "settle": lambda ledger: ledger.settle(HOLD, None, None),
    "release": lambda ledger: ledger.release(HOLD, None),
    "record": lambda ledger: ledger.record(None),
    "replay_of": lambda ledger: ledger.replay_of(CALL),
    "standing": lambda ledger: ledger.standing(CHAIN, now_ms=1),
}


@pytest.mark.requirement("ledger.down-denies")
@pytest.mark.parametrize("way", LEDGER_WAYS)
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (StoreUnavailableError(), LedgerUnavailableError),
        (StoreOverloadedError(), LedgerOverloadedError),
        (UnstorableError(names=("name",)), LedgerUnavailableError),
    ],
)
async def test_a_failing_ledger_is_said_in_the_gateways_words_whatever_is_asked(
    way: str, theirs: StoreError, ours: type[GatewayError]
) -> None:
    with pytest.raises(ours) as caught:
        await LEDGER_WAYS[way](ledger_that(theirs))

    assert caught.value.__cause__ is theirs


@pytest.mark.parametrize("theirs", [InvalidTransitionError(), UnknownReservationError()])
@pytest.mark.parametrize("way", ["forward", "settle", "release"])
async def test_a_hold_that_ended_before_is_told_apart_from_a_ledger_that_fails(
    way: str, theirs: Exception
) -> None:
    with pytest.raises(HoldEndedError) as caught:
        await LEDGER_WAYS[way](ledger_that(theirs))

    assert caught.value.__cause__ is theirs


async def test_a_call_that_has_no_record_yet_has_nothing_to_replay() -> None:
    assert await ledger_that(NotFoundError()).replay_of(CALL) is None


async def put(archive: StoreArchive) -> object:
    return await archive.put(b"x", chain=CHAIN, call_id=CALL, media_type="text/plain", now_ms=1)


async def read(archive: StoreArchive) -> object:
    return await archive.read(ENTRY, chain=CHAIN, offset=0, length=1)


@pytest.mark.requirement("archive.down-passes-result")
@pytest.mark.parametrize(
    "theirs", [StoreUnavailableError(), StoreOverloadedError(), ArchiveTooLargeError("too big")]
)
async def test_an_archive_that_cannot_take_a_result_says_so_in_the_gateways_words(
    theirs: StoreError,
) -> None:
    with pytest.raises(ArchiveUnavailableError) as caught:
        await put(archive_that(theirs))

    assert caught.value.__cause__ is theirs


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (ArchiveNotFoundError(), ArchiveMissError),
        (ArchiveCorruptError(), ArchiveDamagedError),
        (StoreUnavailableError(), ArchiveUnavailableError),
    ],
)
async def test_an_archive_that_cannot_answer_says_why_in_the_gateways_words(
    theirs: StoreError, ours: type[GatewayError]
) -> None:
    with pytest.raises(ours) as caught:
        await read(archive_that(theirs))

    assert caught.value.__cause__ is theirs


@pytest.mark.requirement("budget.remaining-is-shown")
async def test_an_agent_is_shown_what_remains_of_a_balance() -> None:
    view = BalanceView(
        budget_id="daily",
        scope=ScopeKind.AGENT,
        subject="ada",
        unit=Unit.TURNS,
        limit=9,
        used=4,
        reserved=3,
        overrun=1,
        window=Fixed(86_400_000),
        resets_at_ms=86_400_000,
        is_quota=False,
    )

    async def balances(**_asked: object) -> tuple[BalanceView, ...]:
        return (view,)

    ledger = StoreLedger(ledger=SimpleNamespace(balances=balances), calls=Failing(StoreError()))
    (shown,) = await ledger.standing(CHAIN, now_ms=1)

    assert shown == {
        "budget_id": "daily",
        "scope": "agent",
        "unit": "turns",
        "limit": 9,
        "used": 4,
        "reserved": 3,
        "remaining": 2,
        "starts_at_ms": 0,
        "resets_at_ms": 86_400_000,
    }


GOOD = {"tenant": CHAIN.tenant, "session": CHAIN.session, "ended_at_ms": 5}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ('{"query": "draw a chart", "limit": 3}', "draw a chart"),
        ("sha256:0a", ""),
        ('{"query": 5}', ""),
        ("[]", ""),
        (None, ""),
    ],
)
async def test_a_search_that_went_well_is_read_from_its_record(
    arguments: str | None, words: str
) -> None:
    search = GoodCall(name="s", arguments=arguments, detail="found: a__b c__d", **GOOD)
    other = GoodCall(name="a__b", arguments=None, detail=None, **GOOD)

    async def latest_good(*, limit: int, in_full: str) -> tuple[GoodCall, ...]:
        assert (limit, in_full) == (9, "s")
        return (search, other)

    uses = StoreUses(SimpleNamespace(latest_good=latest_good))
    first, second = await uses.latest(calls_max=9, with_words_of="s")

    assert (first.words, first.found) == (words, ("a__b", "c__d"))
    assert (second.tool, second.words, second.found) == ("a__b", "", ())


async def test_records_that_cannot_be_read_are_a_ledger_that_does_not_answer() -> None:
    with pytest.raises(LedgerUnavailableError):
        await StoreUses(Failing(StoreUnavailableError())).latest(calls_max=1, with_words_of="s")
