"""Upstreams that are replaced, removed and added while calls run, over real servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest

from governor.ids import ToolName, UpstreamName
from tests.tool_gateway.makers import LIMITS, a_call
from tests.tool_gateway.test_upstreams import LOCAL, REMOTE, SECONDS_MAX, Upstreams, http, serving
from tests.tool_gateway.test_upstreams import stdio as started
from tool_gateway.changes import Changes
from tool_gateway.errors import UpstreamDownError, UpstreamFailedError
from tool_gateway.ports import Backend, Meter
from tool_gateway.results import Outcome
from tool_gateway.upstreams import fleet as fleet_module
from tool_gateway.upstreams.relay import UpstreamRelay
from tool_gateway.upstreams.roster import Roster
from tool_gateway.upstreams.spec import Care, UpstreamSpec

pytestmark = pytest.mark.anyio

OTHER = UpstreamName("other")


@asynccontextmanager
async def connected(*specs: UpstreamSpec) -> AsyncIterator[Upstreams]:
    async with Upstreams(*specs).connected() as upstreams:
        yield upstreams


async def line_up(upstreams: Upstreams, *specs: UpstreamSpec) -> fleet_module.Lineup:
    lineup = await upstreams.fleet.lined_up(specs)
    upstreams.fleet.take(lineup)
    return lineup


async def run(backend: Backend, tool: str) -> Outcome:
    call = replace(a_call(), tool=ToolName(f"{LOCAL}__{tool}"))
    return await backend.run(call, replace(LIMITS, wall_ms=20_000), Meter())


def exposed(upstreams: Upstreams) -> set[str]:
    return {entry.backend for entry in upstreams.stock.catalog}


@pytest.mark.requirement("reload.drops-no-call")
async def test_a_call_that_has_not_left_goes_to_what_has_taken_the_place() -> None:
    async with connected(started()) as upstreams:
        waiting = upstreams.fleet.backends[LOCAL]
        before = await run(waiting, "pid")
        lineup = await line_up(upstreams, replace(started(), env={"NEW": "1"}))
        after = await run(waiting, "pid")
        fresh = await upstreams.call("pid")

    assert lineup.replaced == (LOCAL,)
    assert before.result.sole_text != after.result.sole_text == fresh.result.sole_text


@pytest.mark.requirement("reload.drops-no-call")
async def test_what_runs_at_an_upstream_that_is_gone_is_answered_before_it_is_closed() -> None:
    outcomes: list[Outcome] = []
    with anyio.fail_after(SECONDS_MAX):
        async with (
            serving() as remote,
            connected(http(remote.url), started()) as upstreams,
            anyio.create_task_group() as tasks,
        ):

            async def hold() -> None:
                outcomes.append(await upstreams.call("hold", at=REMOTE))

            tasks.start_soon(hold)
            await remote.held.wait()
            gone = upstreams.fleet.backends[REMOTE]
            lineup = await line_up(upstreams, started(), started(name=OTHER))
            shown = exposed(upstreams)
            with pytest.raises(UpstreamDownError, match="taken out of the configuration"):
                await run(gone, "hold")
            remote.let_go.set()

    assert (lineup.added, lineup.removed, lineup.replaced) == ((OTHER,), (REMOTE,), ())
    assert shown == {LOCAL, OTHER}
    assert [outcome.result.sole_text for outcome in outcomes] == ["held to the end"]


async def test_what_never_ends_keeps_an_upstream_that_is_gone_for_a_while_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet_module, "DRAIN_SECONDS_MAX", 0.1)
    async with connected(started(), started(name=OTHER)) as upstreams:
        failed = anyio.Event()

        async def wait() -> None:
            with pytest.raises(UpstreamFailedError):
                await upstreams.call("wait")
            failed.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await line_up(upstreams, started(name=OTHER))
            await failed.wait()
        still = await upstreams.call("echo", at=OTHER, text="here")

    assert still.result.sole_text == "here"
    assert LOCAL in upstreams.placement.ended


async def test_both_servers_of_a_replacement_have_domains_of_their_own() -> None:
    async with connected(started()) as upstreams:
        await line_up(upstreams, replace(started(), env={"NEW": "1"}))
        await line_up(upstreams, replace(started(), env={"NEW": "2"}))
        names = {connection.placed_as for connection in upstreams.fleet.connections}

    assert set(upstreams.placement.ended) == {LOCAL, "local.r1", "local.r2"}
    assert names == {"local.r2"}


async def test_what_needs_no_other_connection_keeps_it() -> None:
    async with connected(started()) as upstreams:
        before = await upstreams.call("pid")
        lineup = await line_up(upstreams, replace(started(), care=Care(idempotent_by_key=True)))
        after = await upstreams.call("pid")

    assert (tuple(lineup.retuned), lineup.replaced) == ((LOCAL,), ())
    assert upstreams.fleet.relays[LOCAL].spec.care.idempotent_by_key
    assert before.result.sole_text == after.result.sole_text


async def test_what_was_watched_at_the_old_one_is_watched_at_the_new_one() -> None:
    async with connected(started()) as upstreams:
        await upstreams.fleet.connections[0].listener.watch(None, "mem://note")
        await line_up(upstreams, replace(started(), env={"NEW": "1"}))
        watched = upstreams.fleet.connections[0].listener.watched

    assert watched == {"mem://note"}


async def test_who_listens_is_told_of_other_tools_and_not_of_the_same_ones() -> None:
    heard: list[object] = []
    changes = Changes()
    upstreams = Upstreams(started())
    upstreams.fleet._publish = changes.publish
    async with upstreams.connected():
        changes.subscribe(heard.append)
        await line_up(upstreams, replace(started(), env={"NEW": "1"}))
        same = len(heard)
        await line_up(upstreams, started(name=OTHER))

    assert same == 0
    assert len(heard) == 1


def test_whoever_walks_through_the_upstreams_walks_through_those_of_one_moment() -> None:
    def relay(name: str) -> tuple[UpstreamName, UpstreamRelay]:
        return UpstreamName(name), object.__new__(UpstreamRelay)

    roster = Roster(dict([relay("a"), relay("b")]))
    seen = []

    for name in roster.items():
        roster.swap(dict([relay("c")]))
        seen.append(name[0])

    assert seen == ["a", "b"]
    assert (list(roster), len(roster), "a" in roster) == (["c"], 1, False)
