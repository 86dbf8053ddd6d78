"""The step that shows a memory limit: one call is killed alone, with an explanation."""

import anyio

from runtime.tour.report import StepReport, failed, not_enforceable, ok
from runtime.tour.stage import Answer, Stage, call
from tool_gateway.results import CALL_META

TITLE = "memory limit kills one call alone"
# Doubles a string until the limit stops it; awk is on every Unix.
_HOG = """awk 'BEGIN { s = "flyball"; while (1) s = s s }'"""
# Prints, waits until its neighbour is certainly gone, prints again.
_NEIGHBOUR = "echo before; sleep 3; echo after"


async def exceed_memory(stage: Stage) -> StepReport:
    """Run a hog over its memory limit while a neighbour runs on."""
    answers: dict[str, Answer] = {}

    async def shell(name: str, command: str) -> None:
        async with stage.agent() as client:
            answers[name] = await call(client, "shell_run", command=command)
            ended.append(name)

    ended: list[str] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shell, "neighbour", _NEIGHBOUR)
        tasks.start_soon(shell, "hog", _HOG)
    hog, neighbour = answers["hog"], answers["neighbour"]

    if hog.denial is not None:
        return not_enforceable(TITLE, "memory limit", hog.denial["remedy"]["text"])
    shown = hog.meta[CALL_META]
    peak_mib = (shown["usage"]["memory_peak_bytes"] or 0) / 2**20
    if shown["status"] != "limit_hit" or "memory limit" not in hog.text:
        return failed(TITLE, f"{shown['status']}, peak {peak_mib:.0f} MiB: {hog.text[:160]}")
    if neighbour.is_error or "after" not in neighbour.text:
        return failed(TITLE, f"the neighbour was hit too: {neighbour.text[:160]}")
    if ended != ["hog", "neighbour"]:
        return failed(TITLE, "the neighbour was gone before the hog was killed")
    told = hog.text.rpartition("[")[2].partition(" (")[0]
    return ok(TITLE, f"peak {peak_mib:.1f} MiB; told “{told}”; the neighbour ran on")
