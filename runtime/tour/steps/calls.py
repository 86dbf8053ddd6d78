"""Steps that show governed calls: one on each upstream, one on this machine."""

from collections.abc import Mapping
from typing import Any

import anyio

from runtime.tour.report import StepReport, failed, not_enforceable, ok
from runtime.tour.stage import Answer, Stage, call
from tool_gateway.results import BUDGET_META, CALL_META


async def call_time(stage: Stage) -> StepReport:
    """Call the bundled time server, over stdio."""
    return await _one(stage, "time__get_current_time", timezone="UTC")


async def call_git(stage: Stage) -> StepReport:
    """Call the bundled Git server, over stdio."""
    if stage.repository is None:
        report = await _one(stage, "time__convert_time", **_CONVERSION)
        return ok(report.title, f"{report.measured} (in place of git, which is not installed)")
    return await _one(stage, "git__git_log", repo_path=str(stage.repository), max_count=1)


async def call_notes(stage: Stage) -> StepReport:
    """Call the notes server, over HTTP."""
    return await _one(stage, "notes__add", text="The tour was here.")


async def call_shell(stage: Stage) -> StepReport:
    """Run a local command in a domain of its own."""
    return await _local(stage, "shell_run", command="id -un; echo governed")


async def call_python(stage: Stage) -> StepReport:
    """Run Python source in a domain of its own."""
    code = "import getpass, sys; print(getpass.getuser(), sys.argv[1])"
    return await _local(stage, "python_run", code=code, args=["governed"])


async def _local(stage: Stage, title: str, **arguments: Any) -> StepReport:
    async with stage.agent() as client:
        answer = await call(client, title, **arguments)
    if answer.denial is not None:
        return _denied(title, answer.denial)
    shown = answer.meta[CALL_META]
    if answer.is_error or "governed" not in answer.text:
        return failed(title, answer.text[:200])
    user = answer.text.split()[0]
    isolation = shown["isolation"]
    return ok(title, f"{_took(shown)}, as {user}, {isolation['enforcement']} by {isolation['by']}")


_CONVERSION = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}


async def _one(stage: Stage, tool: str, **arguments: Any) -> StepReport:
    began = anyio.current_time()
    async with stage.agent() as client:
        connected = anyio.current_time()
        answer = await call(client, tool, **arguments)
    ended = anyio.current_time()
    if answer.denial is not None:
        return _denied(tool, answer.denial)
    if answer.is_error or not _is_accounted(answer):
        return failed(tool, answer.text[:200])
    seen = f"{(ended - connected) * 1000:.0f} ms at the client"
    connect = f"{(connected - began) * 1000:.0f} ms to connect"
    return ok(tool, f"{_took(answer.meta[CALL_META])}; {seen}, {connect}")


def _is_accounted(answer: Answer) -> bool:
    """Tell whether the answer says what the call used and what remains."""
    return CALL_META in answer.meta and BUDGET_META in answer.meta


def _took(shown: Mapping[str, Any]) -> str:
    usage = shown["usage"]
    parts = [f"{usage['wall_ms']} ms"]
    if usage.get("cpu_ms") is not None:
        parts.append(f"{usage['cpu_ms']} ms CPU")
    if usage.get("memory_peak_bytes") is not None:
        parts.append(f"peak {usage['memory_peak_bytes'] / 2**20:.1f} MiB")
    parts.append(f"{usage['cost_microusd']} µ$")
    return ", ".join(parts)


def _denied(title: str, denial: Mapping[str, Any]) -> StepReport:
    text = denial["remedy"]["text"]
    if denial["reason"] == "isolation_unavailable":
        return not_enforceable(title, "local command isolation", text)
    return failed(title, f"{denial['reason']}: {text}")
