"""The tour against steps that break, and steps against answers that are wrong."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import mcp_types
import pytest
from mcp.shared.exceptions import MCPError

from governor.ids import UpstreamName
from runtime.tour import play as playing
from runtime.tour.play import STEPS, play
from runtime.tour.report import Ending, StepReport, ok
from runtime.tour.stage import Stage, upstreams_settled
from runtime.tour.steps.bill import show_bill
from runtime.tour.steps.calls import call_notes, call_python, call_shell
from runtime.tour.steps.machine import exceed_memory
from runtime.tour.steps.models import chat_easy
from tool_gateway.results import BUDGET_META, CALL_META, DENIAL_META
from tool_gateway.upstreams.standing import Standing

pytestmark = pytest.mark.anyio

Step = Callable[[Stage], Awaitable[StepReport]]
USAGE = {"wall_ms": 4, "cost_microusd": 10}
ACCOUNTED = {CALL_META: {"status": "ok", "usage": USAGE}, BUDGET_META: []}


def stage(**parts: object) -> Any:
    return SimpleNamespace(**parts)


def result(text: str, *, is_error: bool = False, **meta: object) -> mcp_types.CallToolResult:
    return mcp_types.CallToolResult(
        content=[mcp_types.TextContent(type="text", text=text)], is_error=is_error, _meta=meta
    )


def denial(reason: str, text: str) -> mcp_types.CallToolResult:
    remedy = {"action": "ask_administrator", "text": text}
    return result(text, is_error=True, **{DENIAL_META: {"reason": reason, "remedy": remedy}})


def stage_whose_tools_answer(answer: mcp_types.CallToolResult) -> Any:
    async def call_tool(_name: str, _arguments: Mapping[str, object]) -> mcp_types.CallToolResult:
        return answer

    @asynccontextmanager
    async def agent(_session: str | None = None) -> AsyncIterator[Any]:
        yield SimpleNamespace(call_tool=call_tool)

    return stage(agent=agent)


def stage_whose_models_answer(status: int, **response: Any) -> Any:
    def answer(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(status, **response)

    transport = httpx.MockTransport(answer)
    return stage(
        http=httpx.AsyncClient(transport=transport, base_url="http://agents"),
        is_model_scripted=True,
    )


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("refused"),
        httpx.HTTPStatusError("500", request=None, response=None),
        MCPError(-32602, "there is no such tool"),
        KeyError("bill"),
        json.JSONDecodeError("no JSON", "<html>", 0),
    ],
)
async def test_a_step_that_breaks_is_reported_and_the_tour_goes_on(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def breaks(_stage: Stage) -> StepReport:
        raise error

    async def holds(_stage: Stage) -> StepReport:
        return ok("the next step", "4 ms")

    monkeypatch.setattr(playing, "STEPS", (breaks, holds))
    heard: list[tuple[int, StepReport]] = []

    reports = await play(stage(), lambda number, report: heard.append((number, report)))

    assert [(report.title, report.ending) for report in reports] == [
        ("breaks", Ending.FAILED),
        ("the next step", Ending.OK),
    ]
    assert reports[0].measured.startswith(f"{type(error).__name__}: ")
    assert heard == [(1, reports[0]), (2, reports[1])]


async def test_the_tour_waits_for_upstreams_that_start_slowly_but_not_for_ever() -> None:
    slow, hanging = Standing(UpstreamName("time")), Standing(UpstreamName("git"))
    of_slow: Any = [slow]
    of_both: Any = [hanging, slow]
    waited: list[str] = []

    async def wait() -> None:
        await upstreams_settled(of_slow)
        waited.append(slow.state)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert waited == []
            slow.ready()
        assert waited == ["ready"]
        await upstreams_settled(of_both, seconds_max=0.05)


def test_the_tour_has_the_twelve_steps_that_the_readme_tells_of() -> None:
    assert len(STEPS) == 12
    assert len(set(STEPS)) == 12


async def test_a_call_that_is_accounted_is_ok() -> None:
    report = await call_notes(stage_whose_tools_answer(result("note 1 kept", **ACCOUNTED)))

    assert (report.title, report.ending) == ("notes__add", Ending.OK)
    assert report.measured.startswith("4 ms, 10 µ$; ")


@pytest.mark.requirement("budget.remaining-is-shown")
@pytest.mark.parametrize("missing", [CALL_META, BUDGET_META])
async def test_a_call_that_does_not_say_what_it_used_or_what_remains_has_failed(
    missing: str,
) -> None:
    meta = {name: value for name, value in ACCOUNTED.items() if name != missing}

    report = await call_notes(stage_whose_tools_answer(result("note 1 kept", **meta)))

    assert report.ending is Ending.FAILED


@pytest.mark.parametrize("step", [call_notes, call_shell, call_python])
async def test_a_call_that_answers_an_error_has_failed_with_its_words(step: Step) -> None:
    answer = result("it broke", is_error=True, **ACCOUNTED)

    report = await step(stage_whose_tools_answer(answer))

    assert (report.ending, report.measured) == (Ending.FAILED, "it broke")


@pytest.mark.parametrize("step", [call_notes, call_shell, call_python])
async def test_a_call_that_a_budget_denies_has_failed_with_the_reason(step: Step) -> None:
    report = await step(stage_whose_tools_answer(denial("budget_exhausted", "Ask for more.")))

    assert (report.ending, report.measured) == (
        Ending.FAILED,
        "budget_exhausted: Ask for more.",
    )


@pytest.mark.requirement("isolation.unavailable-denies")
@pytest.mark.parametrize("step", [call_shell, call_python, exceed_memory])
async def test_a_command_that_this_host_cannot_fence_is_no_failure(step: Step) -> None:
    answer = denial("isolation_unavailable", "No control groups here.")

    report = await step(stage_whose_tools_answer(answer))

    assert report.ending is Ending.NOT_ENFORCEABLE
    assert report.capability is not None
    assert report.measured == "No control groups here."


async def test_a_hog_that_its_limit_does_not_stop_has_failed() -> None:
    usage = {**USAGE, "memory_peak_bytes": 900 * 2**20}
    answer = result("done", **{CALL_META: {"status": "ok", "usage": usage}})

    report = await exceed_memory(stage_whose_tools_answer(answer))

    assert report.ending is Ending.FAILED
    assert "peak 900 MiB" in report.measured


async def test_a_neighbour_that_is_hit_too_has_failed() -> None:
    usage = {**USAGE, "memory_peak_bytes": 64 * 2**20}
    meta = {CALL_META: {"status": "limit_hit", "usage": usage}}
    answer = result("[killed: it went over its memory limit]", is_error=True, **meta)

    report = await exceed_memory(stage_whose_tools_answer(answer))

    assert report.ending is Ending.FAILED
    assert report.measured.startswith("the neighbour was hit too")


async def test_a_chat_on_another_tier_than_expected_has_failed() -> None:
    answer = {"model": "scripted-large", "flyball": {"why": "rule 1", "usage": USAGE}}

    report = await chat_easy(
        stage_whose_models_answer(200, json=answer, headers={"Flyball-Tier": "high"})
    )

    assert report.ending is Ending.FAILED


async def test_a_chat_that_is_refused_has_failed_with_its_status() -> None:
    report = await chat_easy(stage_whose_models_answer(429, json={"error": {}}))

    assert report.ending is Ending.FAILED
    assert report.measured.startswith("429: ")


@pytest.mark.parametrize("charged", [{}, {"cost_microusd": 5}, {"tool_calls": 5}])
async def test_a_bill_on_which_nothing_stands_has_failed(charged: dict[str, int]) -> None:
    bill = {"bill": {"charged": charged, "memory_peak_bytes": None}}

    async def session_id(_name: str) -> str:
        return "ses_1"

    transport = httpx.MockTransport(lambda _request: httpx.Response(200, json=bill))
    async with httpx.AsyncClient(transport=transport, base_url="http://admin") as admin:
        report = await show_bill(stage(admin=admin, session="tour", session_id=session_id))

    assert report.ending is Ending.FAILED


@pytest.mark.parametrize(("cpu_ms", "shown"), [(0, "CPU unknown"), (1_230, "1.23 CPU-s")])
async def test_a_bill_without_measured_cpu_time_does_not_say_zero(cpu_ms: int, shown: str) -> None:
    charged = {"cost_microusd": 5, "tool_calls": 5, "cpu_ms": cpu_ms}
    bill = {"bill": {"charged": charged, "memory_peak_bytes": None}}

    async def session_id(_name: str) -> str:
        return "ses_1"

    transport = httpx.MockTransport(lambda _request: httpx.Response(200, json=bill))
    async with httpx.AsyncClient(transport=transport, base_url="http://admin") as admin:
        report = await show_bill(stage(admin=admin, session="tour", session_id=session_id))

    assert report.ending is Ending.OK
    assert f", {shown}, " in report.measured
