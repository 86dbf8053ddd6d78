"""Pinned manifests over real servers: what changed is kept out until it is approved."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import anyio
import mcp_types
import pytest

from governor.ids import ToolName, UpstreamName
from governor.manifest import Pin, Standing
from tests.tool_gateway.makers import LIMITS, a_call
from tests.tool_gateway.test_upstreams import LOCAL, Placement, stdio
from tool_gateway.errors import LedgerUnavailableError
from tool_gateway.guards import pins as pins_module
from tool_gateway.guards.pins import Pins
from tool_gateway.ports import ManifestKnown, Meter
from tool_gateway.stock import Stock
from tool_gateway.upstreams.fleet import UpstreamFleet

pytestmark = pytest.mark.anyio
SECONDS_MAX = 60


@dataclass
class FakeManifestStore:
    """Approved manifests in a dictionary, told when to fail."""

    is_down: bool = False
    kept: dict[UpstreamName, ManifestKnown] = field(default_factory=dict)

    async def all(self) -> Mapping[UpstreamName, ManifestKnown]:
        if self.is_down:
            raise LedgerUnavailableError
        return self.kept

    async def approve(
        self,
        upstream: UpstreamName,
        tools: Mapping[str, Mapping[str, object]],
        *,
        expected_revision: int,
        by: str,
    ) -> ManifestKnown | None:
        if self.is_down:
            raise LedgerUnavailableError
        before = self.kept.get(upstream)
        if expected_revision != (0 if before is None else before.revision):
            return None
        self.kept[upstream] = ManifestKnown(
            revision=expected_revision + 1, tools=tools, approved_at_ms=1, approved_by=by
        )
        return self.kept[upstream]


class Pinned:
    """A connected fleet whose tools are pinned."""

    def __init__(self, store: FakeManifestStore, mode: Pin = Pin.FIRST_USE) -> None:
        self.stock = Stock(())
        self.pins = Pins({LOCAL: mode}, store=store)
        self.fleet = UpstreamFleet(
            [stdio()], placement=Placement(), stock=self.stock, pins=self.pins
        )

    @property
    def tools(self) -> set[str]:
        return {entry.original for entry in self.stock.catalog}

    async def call(self, tool: str) -> None:
        call = replace(a_call(), tool=ToolName(f"{LOCAL}__{tool}"))
        await self.fleet.backends[LOCAL].run(call, replace(LIMITS, wall_ms=20_000), Meter())

    async def offered(self, tool: str) -> None:
        """Have the server say that its tools changed; wait until its list has the tool."""
        (connection,) = self.fleet.connections
        connection.listener.hear(mcp_types.ToolListChangedNotification())
        while tool not in {entry.original for entry in connection.entries}:
            await anyio.sleep(0.01)


@asynccontextmanager
async def connected(store: FakeManifestStore, mode: Pin = Pin.FIRST_USE) -> AsyncIterator[Pinned]:
    pinned = Pinned(store, mode)
    with anyio.fail_after(SECONDS_MAX):
        await pinned.pins.refresh()
        async with pinned.fleet.connected():
            await pinned.pins.pin_met()
            yield pinned


@pytest.fixture(autouse=True)
def list_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tool_gateway.upstreams.connection.PAUSE_SECONDS_MIN", 0.01)


@pytest.mark.requirement("pin.change-is-quarantined")
async def test_a_tool_that_comes_later_is_kept_out_until_it_is_approved() -> None:
    store = FakeManifestStore()
    async with connected(store) as pinned:
        first = pinned.tools
        await pinned.call("grow")
        await pinned.offered("late")
        grown, kept_out = pinned.tools, pinned.pins.kept_out(f"{LOCAL}__late")
        review = pinned.pins.review(LOCAL)
        assert review is not None
        await pinned.pins.approve(review, names=None, by="root")
        approved = pinned.tools

    assert "echo" in first
    assert grown == first
    assert approved == first | {"late"}
    assert review.quarantined == ("late",)
    assert kept_out is not None
    assert kept_out.is_kept_out
    assert pinned.pins.kept_out(f"{LOCAL}__late") is None
    assert (store.kept[LOCAL].revision, store.kept[LOCAL].approved_by) == (2, "root")


@pytest.mark.requirement("pin.change-is-quarantined")
@pytest.mark.requirement("pin.first-use-once")
async def test_a_manifest_that_changed_over_a_restart_is_told_apart() -> None:
    store = FakeManifestStore()
    async with connected(store):
        pass
    known = store.kept[LOCAL]
    tools = {**known.tools, "echo": {**known.tools["echo"], "description": "Echo it."}}
    del tools["pid"]
    store.kept[LOCAL] = replace(known, tools=tools)

    async with connected(store) as pinned:
        exposed, review = pinned.tools, pinned.pins.review(LOCAL)

    assert review is not None
    assert set(review.quarantined) == {"echo", "pid"}
    assert not {"echo", "pid"} & exposed
    assert "big" in exposed
    (echo,) = [one.tool for one in review.tools if one.tool.name == "echo"]
    assert (echo.standing, [change.path for change in echo.changes]) == (
        Standing.CHANGED,
        ["/description"],
    )


@pytest.mark.requirement("pin.first-use-once")
async def test_what_cannot_be_pinned_is_not_exposed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins_module, "RETRY_SECONDS", 0.01)
    store = FakeManifestStore()
    pinned = Pinned(store)
    with anyio.fail_after(SECONDS_MAX):
        async with anyio.create_task_group() as tasks, pinned.fleet.connected():
            store.is_down = True
            before = pinned.tools, await pinned.pins.pin_met()
            tasks.start_soon(pinned.pins.pin_for_ever)
            store.is_down = False
            while not pinned.tools:
                await anyio.sleep(0.01)
            tasks.cancel_scope.cancel()

    assert before == (set(), False)
    assert LOCAL in store.kept


async def test_nothing_is_exposed_unapproved_where_the_operator_wants_to_be_asked() -> None:
    store = FakeManifestStore()
    async with connected(store, Pin.APPROVE) as pinned:
        before, review = pinned.tools, pinned.pins.review(LOCAL)
        assert review is not None
        await pinned.pins.approve(review, names=["echo"], by="root")
        after = pinned.tools

    assert (before, after) == (set(), {"echo"})


async def test_where_pins_are_off_everything_is_exposed_as_it_comes() -> None:
    store = FakeManifestStore()
    async with connected(store, Pin.OFF) as pinned:
        review = pinned.pins.review(LOCAL)
        assert "echo" in pinned.tools

    assert review is not None
    assert not review.quarantined
    assert not store.kept


async def test_an_approval_of_something_older_is_not_taken() -> None:
    store = FakeManifestStore()
    async with connected(store, Pin.APPROVE) as pinned:
        review = pinned.pins.review(LOCAL)
        assert review is not None
        first = await pinned.pins.approve(review, names=["echo"], by="root")
        second = await pinned.pins.approve(review, names=["big"], by="other")

    assert first is not None
    assert second is None
    assert store.kept[LOCAL].tools.keys() == {"echo"}
