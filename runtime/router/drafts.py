"""A request that carries an earlier answer, or a plan, as data that may be wrong."""

import msgspec

from runtime.model_gateway.model_request import ModelRequest
from runtime.router.conversation import with_words
from runtime.router.fencing import Marker, fenced, rule_of
from runtime.router.said import Said
from runtime.router.strategy_terms import DRAFT_CHARS_MAX, PLAN_CHARS_MAX


def with_draft(request: ModelRequest, said: Said, marker: Marker) -> ModelRequest:
    """Return the request with an earlier answer to it as a draft.

    The draft was written by a model that may have read what a stranger wrote, so it is fenced
    and no word of it is an instruction.
    """
    draft = written(said)
    mark = marker(draft)
    return with_words(
        request,
        "Another model answered the above, and its answer may be wrong. "
        f"{rule_of('draft', mark)} Answer the conversation above yourself, in full and in the "
        "form that was asked for. Take from the draft what is right, and do not mention it.\n"
        + fenced(draft, kind="draft", mark=mark, chars_max=DRAFT_CHARS_MAX),
    )


def with_plan(request: ModelRequest, plan: str, marker: Marker) -> ModelRequest:
    """Return the request with the plan that its tier made for it."""
    mark = marker(plan)
    return with_words(
        request,
        f"A short plan for an answer to the above. {rule_of('plan', mark)} Answer the "
        "conversation above, in the form that was asked for, and do not mention the plan.\n"
        + fenced(plan, kind="plan", mark=mark, chars_max=PLAN_CHARS_MAX),
    )


def written(said: Said) -> str:
    """Return an answer as text, with the tools that it wants called."""
    if not said.tools:
        return said.text
    calls = [{"tool": use.name, "arguments": use.arguments} for use in said.tools]
    return f"{said.text}\n{msgspec.json.encode(calls).decode()}".strip()
