"""Notices reach a real receiver: signed, in order, again until they are taken."""

import asyncio
import hmac
import json
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest
from contracts.builders import COST, TENANT, budget, record, request, used
from pydantic import SecretStr

from governor.denial import DenialReason, Denied, Remedy, RemedyAction
from governor.denial_tally import DenialsSeen, DenialTally
from governor.ids import CallId, PrincipalId
from governor.target import CallKind
from memory_store.audit import Actor
from memory_store.engine import Durability
from memory_store.notices import NoticeKind, NoticeView
from memory_store.store import Store, open_store
from runtime.clock import SystemClock
from runtime.notifying import Delivery, deliver_for_ever, notice_json, tell_denials_for_ever
from runtime.plugins.loading import Group, Plugin
from runtime.plugins.notifying import PluggedNotifier
from runtime.webhook import Webhook, WebhookNotifier
from tests.tool_gateway.makers import FakeClock, a_call
from tool_gateway.errors import EgressDeniedError

pytestmark = pytest.mark.anyio
SECRET = "s3cret"


@dataclass
class Receiver:
    """An HTTP server that answers with the statuses it is given, then 200."""

    statuses: list[int]
    url: str = ""
    got: list[tuple[str, bytes]] = field(default_factory=list)
    arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        headers = dict(line.split(": ", 1) for line in head.strip().split("\r\n")[1:])
        body = await reader.readexactly(int(headers["content-length"]))
        status = self.statuses.pop(0) if self.statuses else 200
        writer.write(
            f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()
        async with self.arrived:
            self.got.append((headers["flyball-signature"], body))
            self.arrived.notify_all()

    async def until(self, count: int) -> None:
        with anyio.fail_after(60):
            async with self.arrived:
                await self.arrived.wait_for(lambda: len(self.got) >= count)

    def seqs(self) -> list[list[int]]:
        return [[one["seq"] for one in json.loads(body)["notices"]] for _, body in self.got]


@asynccontextmanager
async def receiver(*statuses: int) -> AsyncIterator[Receiver]:
    made = Receiver(list(statuses))
    server = await asyncio.start_server(made.answer, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook"
    try:
        yield made
    finally:
        server.close()


def webhook(
    url: str, *, name: str = "ops", kinds: Collection[NoticeKind] = NoticeKind
) -> WebhookNotifier:
    terms = Webhook(name=name, url=url, secret=SecretStr(SECRET), kinds=frozenset(kinds))
    return WebhookNotifier(terms, clock=SystemClock())


@asynccontextmanager
async def delivering(
    store: Store, to: Receiver, *, name: str = "ops", kinds: Collection[NoticeKind] = NoticeKind
) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        notifier = webhook(to.url, name=name, kinds=kinds)

        async def deliver() -> None:
            await deliver_for_ever(
                store.notices, SystemClock(), notifier, owner="test", every_seconds=0.01
            )

        tasks.start_soon(deliver)
        yield
        tasks.cancel_scope.cancel()


@pytest.fixture
async def store(begun_state: Path) -> AsyncIterator[Store]:
    async with open_store(begun_state, durability=Durability.PROCESS) as opened:
        await opened.tenants.create(TENANT, name="Acme", by=Actor(name="root"), now_ms=0)
        yield opened


async def cross(store: Store, *, of: int = 10) -> None:
    """Bring a new budget to both of its thresholds with one call."""
    watched = budget({COST: of}, warn_at_permille=(500, 800))
    await store.budgets.create(watched, by=Actor(name="root"), now_ms=0)
    asked = request({COST: of})
    await store.ledger.admit(asked)
    await store.ledger.settle(asked.reservation_id, used({COST: of}), record(asked))


async def taken(
    store: Store, name: str = "ops", kinds: Collection[NoticeKind] = tuple(NoticeKind)
) -> None:
    with anyio.fail_after(60):
        while await store.notices.untaken(name, kinds):
            await anyio.lowlevel.checkpoint()


@pytest.mark.requirement("notice.at-least-once")
async def test_notices_arrive_signed_and_are_marked(store: Store) -> None:
    async with receiver() as there:
        await cross(store)
        async with delivering(store, there):
            await there.until(1)
            await taken(store)

    [(signed, body)] = there.got
    at, told = signed.removeprefix("t=").split(",v1=")
    assert told == hmac.new(SECRET.encode(), f"{at}.".encode() + body, sha256).hexdigest()
    notices: list[dict[str, Any]] = json.loads(body)["notices"]
    assert [(one["kind"], one["detail"]["at"]) for one in notices] == [
        ("threshold", 5),
        ("threshold", 8),
    ]
    page = await store.notices.page()
    assert all(view.delivered_at_ms is not None for view in page.items)


@pytest.mark.requirement("notice.at-least-once")
async def test_what_is_not_taken_is_sent_again_in_the_same_order(store: Store) -> None:
    async with receiver(500, 302, 404) as there:
        await cross(store)
        async with delivering(store, there):
            await there.until(4)
            await taken(store)

    assert there.seqs() == [[1, 2]] * 4


@pytest.mark.requirement("notice.at-least-once")
async def test_what_was_not_taken_is_sent_after_a_restart(tmp_path: Path) -> None:
    state = tmp_path / "again"
    async with open_store(state, durability=Durability.PROCESS) as store:
        await store.tenants.create(TENANT, name="Acme", by=Actor(name="root"), now_ms=0)
        await cross(store)
        async with receiver(*[503] * 100) as there, delivering(store, there):
            await there.until(2)
    async with (
        open_store(state, durability=Durability.PROCESS) as store,
        receiver() as there,
        delivering(store, there),
    ):
        await there.until(1)
        await taken(store)

    assert there.seqs() == [[1, 2]]


@pytest.mark.requirement("egress.checked-addresses")
async def test_notices_go_to_no_private_address_that_a_name_leads_to(store: Store) -> None:
    # To the system's resolver this is 127.0.0.1, which the operator did not write.
    notifier = webhook("http://2130706433:9/hook")
    await cross(store)
    delivery = Delivery(store.notices, SystemClock(), notifier, owner="test")

    with pytest.raises(EgressDeniedError, match=r"leads to 127\.0\.0\.1, a loopback address"):
        await delivery.once()


@pytest.mark.requirement("notice.by-kind")
async def test_each_webhook_is_sent_its_kinds_at_its_own_pace(store: Store) -> None:
    denials = (NoticeKind.DENIAL,)
    async with receiver() as budgets, receiver(*[500] * 3) as denied:
        await cross(store)
        await store.notices.tell_denials([seen(count=3)], now_ms=1)
        async with (
            delivering(store, budgets, name="budgets", kinds=(NoticeKind.THRESHOLD,)),
            delivering(store, denied, name="denied", kinds=denials),
        ):
            await budgets.until(1)
            await denied.until(4)
            await taken(store, "denied", denials)

    assert budgets.seqs() == [[1, 2]]
    assert denied.seqs() == [[3]] * 4
    [notice] = json.loads(denied.got[-1][1])["notices"]
    assert (notice["kind"], notice["budget_id"], notice["unit"]) == ("denial", None, None)
    assert (notice["detail"]["reason"], notice["detail"]["count"]) == ("policy_denied", 3)


@pytest.mark.requirement("notice.by-kind")
async def test_a_webhook_that_takes_nothing_holds_up_no_other(store: Store) -> None:
    async with receiver(*[503] * 1_000) as ill, receiver() as well:
        await cross(store)
        async with delivering(store, ill, name="ill"), delivering(store, well, name="well"):
            await ill.until(2)
            await well.until(1)
            await taken(store, "well")

    assert well.seqs() == [[1, 2]]
    assert len(await store.notices.untaken("ill", NoticeKind)) == 2


@pytest.mark.requirement("notice.by-kind")
async def test_a_webhook_that_is_added_hears_of_what_happens_from_then_on(store: Store) -> None:
    async with receiver() as first, receiver() as second:
        await cross(store)
        async with delivering(store, first, name="first"):
            await first.until(1)
            await taken(store, "first")
        await store.notices.tell_denials([seen(count=1)], now_ms=1)
        async with delivering(store, second, name="second"):
            await second.until(1)
            await taken(store, "second")

    assert second.seqs() == [[3]]


def seen(*, count: int) -> DenialsSeen:
    return DenialsSeen(
        tenant=TENANT,
        agent=PrincipalId("ada"),
        reason=DenialReason.POLICY_DENIED,
        kind=CallKind.TOOL,
        name="files__read",
        call_id=CallId("call_1"),
        count=count,
        since_ms=1,
    )


@pytest.mark.requirement("notice.denials-added-up")
async def test_denials_that_were_not_told_yet_are_told_at_the_stop(store: Store) -> None:
    denials, started = DenialTally(), anyio.Event()
    remedy = Remedy(action=RemedyAction.REQUEST_LESS, text="less")
    denied = Denied(reason=DenialReason.POLICY_DENIED, remedy=remedy)

    def note(number: int) -> None:
        call = a_call(f"call_{number}")
        call = replace(call, chain=replace(call.chain, tenant=TENANT))
        denials.note(call, CallKind.TOOL, denied, now_ms=SystemClock().now_ms())

    async def tell() -> None:
        started.set()
        await tell_denials_for_ever(denials, store.notices, SystemClock(), every_seconds=600)

    note(1)
    denials.due(now_ms=SystemClock().now_ms())
    note(2)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tell)
        await started.wait()
        tasks.cancel_scope.cancel()

    [told] = (await store.notices.page()).items
    assert (told.kind, told.call_id) == (NoticeKind.DENIAL, "call_2")


class EndingNotifier:
    """A plug-in that raises what ends tasks and processes, and then takes what it is brought."""

    def __init__(self) -> None:
        self.raises: list[BaseException] = [
            asyncio.CancelledError(), KeyboardInterrupt(), SystemExit(3), GeneratorExit()
        ]  # fmt: skip
        self.took = anyio.Event()

    async def notify(self, notices: object) -> None:
        if self.raises:
            raise self.raises.pop(0)
        self.took.set()


@pytest.mark.requirement("plugins.contained")
async def test_whatever_a_notifier_raises_ends_nobody_else_and_it_is_asked_again(
    store: Store,
) -> None:
    made, clock = EndingNotifier(), FakeClock()
    plugin = Plugin(name="pager", group=Group.NOTIFIER, package="a 1.0", made=made)
    notifier = PluggedNotifier(plugin, shown=notice_json, clock=clock)
    await cross(store)

    async with anyio.create_task_group() as tasks:

        async def deliver() -> None:
            await deliver_for_ever(
                store.notices, SystemClock(), notifier, owner="test", every_seconds=0.01
            )

        tasks.start_soon(deliver)
        with anyio.fail_after(60):
            await made.took.wait()
            await taken(store, notifier.name)
        tasks.cancel_scope.cancel()


class TakenMeanwhile:
    """Notices that another sidecar delivers while this one waits for the lease."""

    def __init__(self, views: Sequence[NoticeView]) -> None:
        self.views: Sequence[NoticeView] = views
        self.marked: list[Sequence[int]] = []

    async def meet(self, name: str) -> None:
        pass

    async def untaken(self, name: str, kinds: object, *, limit: int) -> Sequence[NoticeView]:
        return self.views

    async def lease(self, name: str, **terms: object) -> bool:
        self.views = ()
        return True

    async def taken(self, name: str, seqs: Sequence[int], *, now_ms: int) -> None:
        self.marked.append(seqs)

    async def move_on(self, name: str, kinds: object, *, now_ms: int) -> None:
        pass


async def test_what_another_sidecar_has_delivered_is_neither_sent_nor_marked(
    store: Store,
) -> None:
    await cross(store)
    notices: Any = TakenMeanwhile((await store.notices.page()).items)

    async with receiver() as there:
        taken = await Delivery(notices, SystemClock(), webhook(there.url), owner="test").once()

    assert (taken, there.got, notices.marked) == (0, [], [])
