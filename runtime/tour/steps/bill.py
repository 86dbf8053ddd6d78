"""The last step: what the session cost, as an administrator sees it."""

from typing import Any

from runtime.tour.report import StepReport, failed, ok
from runtime.tour.stage import Stage

TITLE = "the session's bill"


async def show_bill(stage: Stage) -> StepReport:
    """Read the bill of the tour's session from the admin API."""
    session_id = await stage.session_id(stage.session)
    answer = await stage.admin.get(f"/admin/v1/sessions/{session_id}")
    answer.raise_for_status()
    bill: dict[str, Any] = answer.json()["bill"]
    used = bill["charged"]
    if used.get("cost_microusd", 0) <= 0 or used.get("tool_calls", 0) <= 0:
        return failed(TITLE, f"nothing was charged: {bill}")
    peak = bill["memory_peak_bytes"]
    return ok(
        TITLE,
        f"${used['cost_microusd'] / 1e6:.6f}, "
        f"{used.get('input_tokens', 0)} + {used.get('output_tokens', 0)} tokens, "
        f"{used['tool_calls']} tool calls, {used.get('turns', 0)} turns, "
        f"{_cpu(used)}, "
        f"peak {'unknown' if peak is None else f'{peak / 2**20:.1f} MiB'}",
    )


def _cpu(used: dict[str, int]) -> str:
    """Return the CPU time; none at all means that nothing measured it."""
    cpu_ms = used.get("cpu_ms", 0)
    return f"{cpu_ms / 1000:.2f} CPU-s" if cpu_ms else "CPU unknown"
