"""The steps that show model calls: charged to the same budgets, on a chosen tier."""

from typing import Any

from runtime.tour.report import StepReport, failed, ok
from runtime.tour.stage import Stage

_EASY = "What is a flyball governor? One sentence."
_HARD = "Prove, step by step, that a governor with delay can oscillate."


async def chat_easy(stage: Stage) -> StepReport:
    """Ask something easy; `auto` takes the cheap tier."""
    return await _chat(stage, _EASY, tier="low")


async def chat_hard(stage: Stage) -> StepReport:
    """Ask something hard; `auto` takes the strong tier."""
    return await _chat(stage, _HARD, tier="high")


async def _chat(stage: Stage, question: str, *, tier: str) -> StepReport:
    who = "scripted model" if stage.is_model_scripted else "real model"
    title = f"chat on tier {tier} ({who})"
    answer = await stage.http.post(
        "/v1/chat/completions",
        json={"model": "auto", "messages": [{"role": "user", "content": question}]},
    )
    body: dict[str, Any] = answer.json()
    if answer.is_error or answer.headers.get("Flyball-Tier") != tier:
        return failed(title, f"{answer.status_code}: {answer.text[:160]}")
    told = body["flyball"]
    usage = told["usage"]
    return ok(
        title,
        f"{body['model']} ({told['why']}): {usage['input_tokens']} + {usage['output_tokens']} "
        f"tokens, {usage['cost_microusd']} µ$, {usage['wall_ms']} ms",
    )
