"""A workspace with what is known of the class of task before it: guidance, and the playbook."""

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
        text = self._text(advice, tokens_max=tokens_max // 2)
        taken = tokens_of(text)
        answer = await self._below.context_of(call, focus=focus, tokens_max=tokens_max - taken)
        guided = advice.guided
        told = {"level": guided.guidance.value, "told": guided.told, "why": guided.why}
        return replace(
            answer,
            text=f"{text}\n{answer.text}" if text else answer.text,
            structured={
                **answer.structured,
                "guidance": told,
                "playbook": [
                    {"bullet": one.index, "role": one.role.value, "text": one.text}
                    for one in advice.bullets
                ]
                if text
                else [],
            },
            tokens=answer.tokens + taken,
        )

    def _text(self, advice: Advice, *, tokens_max: int) -> str:
        """Return the words of an advice; nothing where there is none, or no room for it."""
        bullets = advice.bullets
        if not bullets and not advice.guided.is_by_record:
            return ""
        parts = [advice.guided.told, rendered(bullets, key=self._key).text if bullets else ""]
        text = "\n".join(part for part in parts if part)
        return text if tokens_of(text) <= tokens_max else ""
