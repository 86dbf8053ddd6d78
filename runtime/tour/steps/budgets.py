"""Steps that show budgets: exactly N of 2N concurrent calls, then an administrator's raise."""

import anyio

from runtime.tour.report import StepReport, failed, ok
from runtime.tour.stage import Answer, Stage, call

CALLS = 8
_TOOL = "time__get_current_time"


async def race_for_budget(stage: Stage) -> StepReport:
    """Let 2N callers race for a budget of N calls."""
    title = f"{CALLS} calls left, {2 * CALLS} callers"
    session = _limited(stage)
    async with stage.agent(session) as client:
        await call(client, "governor_status")
    made = await stage.admin.post(
        "/admin/v1/budgets",
        json={
            "id": session,
            "tenant": "default",
            "scope": "session",
            "subject": await stage.session_id(session),
            "limits": {"tool_calls": CALLS},
            "window": "lifetime",
        },
    )
    made.raise_for_status()

    answers: list[Answer] = []

    async def caller() -> None:
        async with stage.agent(session) as client:
            answers.append(await call(client, _TOOL, timezone="UTC"))

    began = anyio.current_time()
    async with anyio.create_task_group() as tasks:
        for _ in range(2 * CALLS):
            tasks.start_soon(caller)
    took = anyio.current_time() - began

    ran = [answer for answer in answers if not answer.is_error]
    denials = [answer.denial for answer in answers if answer.denial is not None]
    held = all(denial["budget_id"] == session for denial in denials)
    if len(ran) != CALLS or len(denials) != CALLS or not held:
        return failed(title, f"{len(ran)} ran, {len(denials)} were denied")
    return ok(title, f"{len(ran)} ran, {len(denials)} denied, in {took * 1000:.0f} ms")


async def raise_budget(stage: Stage) -> StepReport:
    """Raise the budget that is used up; the next call passes."""
    title = "administrator raises the budget"
    session = _limited(stage)
    async with stage.agent(session) as client:
        before = await call(client, _TOOL, timezone="UTC")
        budget = await stage.admin.get(f"/admin/v1/budgets/{session}")
        budget.raise_for_status()
        raised = await stage.admin.put(
            f"/admin/v1/budgets/{session}",
            json={**_writable(budget.json()), "limits": {"tool_calls": CALLS + 1}},
            headers={"If-Match": budget.headers["ETag"]},
        )
        raised.raise_for_status()
        after = await call(client, _TOOL, timezone="UTC")
    retired = await stage.admin.delete(f"/admin/v1/budgets/{session}")
    retired.raise_for_status()

    if before.denial is None or after.is_error:
        return failed(title, f"before: {before.text[:80]}; after: {after.text[:80]}")
    return ok(title, f"denied at {CALLS}, raised to {CALLS + 1}, the next call passed")


def _limited(stage: Stage) -> str:
    return f"{stage.session}-limited"


def _writable(budget: dict[str, object]) -> dict[str, object]:
    names = ("tenant", "scope", "subject", "limits", "window")
    return {name: budget[name] for name in names}
