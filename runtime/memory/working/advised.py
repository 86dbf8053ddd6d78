"""A workspace with what is known of the class of task before it: guidance, and the playbook."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from governor.call import ToolCall
from governor.experience.answer import Answer
from governor.experience.guidance import Guided
from governor.experience.rendering import Shown, rendered
from governor.experience.tokens import tokens_of
from memory_store.errors import StoreError
from runtime.memory.ports import WorkingContext
from tool_gateway import telemetry

# A playbook takes at most this part of a workspace.
_PART = 4
# Below this there is no room for anybody's advice.
_TOKENS_MIN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """What an agent is told before a task: how closely it is guided, and by which bullets."""

    guided: Guided
    bullets: tuple[Shown, ...]


Advise = Callable[[ToolCall, int], Awaitable[Advice]]


class AdvisedContext:
    """Puts advice before what another one says of where a session stands."""

    def __init__(self, below: WorkingContext, advise: Advise, *, key: bytes) -> None:
        """Take who knows the session, and who advises; `key` is what texts are framed with."""
        self._below = below
        self._advise = advise
        self._key = key

    async def context_of(self, call: ToolCall, *, focus: str, tokens_max: int) -> Answer:
        """Return the workspace of the call's session, with the advice that fits before it.

        Where nobody can advise, the workspace is whole without it; that is counted.
        """
        advice = None
        if tokens_max >= _TOKENS_MIN:
            try:
                advice = await self._advise(call, tokens_max // _PART)
            except StoreError:
                telemetry.count_failure("advice")
        if advice is None:
            return await self._below.context_of(call, focus=focus, tokens_max=tokens_max)
        text, told = self._told(advice, tokens_max=tokens_max // 2)
        taken = max(tokens_of(text), tokens_of(json.dumps(told, ensure_ascii=False)))
        answer = await self._below.context_of(call, focus=focus, tokens_max=tokens_max - taken)
        tokens = answer.tokens + taken
        return replace(
            answer,
            text=f"{text}\n{answer.text}" if text else answer.text,
            structured={**answer.structured, **told, "tokens": tokens},
            tokens=tokens,
        )

    def _told(self, advice: Advice, *, tokens_max: int) -> tuple[str, dict[str, object]]:
        """Return an advice for a model and for a program, without bullets if they do not fit."""
        guided = advice.guided
        for bullets in (advice.bullets, ()):
            says = bool(bullets) or guided.is_by_record
            quoted = rendered(bullets, key=self._key).text if bullets else ""
            text = "\n".join(part for part in (guided.told if says else "", quoted) if part)
            told: dict[str, object] = {
                "guidance": {
                    "level": guided.guidance.value,
                    "told": guided.told if says else "",
                    "why": guided.why,
                },
                "playbook": [
                    {"bullet": one.index, "role": one.role.value, "text": one.text}
                    for one in bullets
                ],
            }
            if tokens_of(text) + tokens_of(json.dumps(told, ensure_ascii=False)) <= 2 * tokens_max:
                break
        return text, told
