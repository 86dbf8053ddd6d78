"""Denials as the JSON that models and programs read."""

import json
from dataclasses import replace

from governor.amounts import Unit
from governor.denial import (
    Challenge,
    DenialReason,
    Denied,
    Remedy,
    RemedyAction,
    Shortage,
    TooLarge,
)
from governor.flow.policy import Stopped
from governor.loops import Loop, LoopMeasure
from governor.tracker import duration_words
from tool_gateway.answering import ANSWER
from tool_gateway.loop_texts import ADVICE, head
from tool_gateway.results import DENIAL_META, GATE_META, ToolResult, text_block


def denial_json(denied: Denied) -> dict[str, object]:
    """Return the denial in its public shape (`interfaces`: Denial)."""
    shortage = denied.shortage
    shape: dict[str, object] = {
        "reason": denied.reason.value,
        "budget_id": None,
        "unit": None,
        "limit": None,
        "used": None,
        "reserved": None,
        "requested": None,
        "resets_at_ms": None,
    }
    if shortage is not None:
        shape.update(_shortage_json(shortage))
    if denied.size is not None:
        size = {"unit": "bytes", "limit": denied.size.limit, "requested": denied.size.got}
        shape.update(size)
    shape["retry_after_ms"] = denied.retry_after_ms
    if denied.approval_id is not None:
        shape["approval_id"] = denied.approval_id
    if denied.challenge is not None:
        shape["challenge"] = _challenge_json(denied.challenge)
    shape["remedy"] = _remedy_json(denied.remedy)
    shape["also"] = [_shortage_json(other) for other in denied.also]
    return shape


def denial_result(denied: Denied, *, has_output_schema: bool) -> ToolResult:
    """Return the denial as a tool result that the model can adapt to.

    Structured content is left out where the tool declares an output schema, because
    official clients validate it even on errors.
    """
    shape = denial_json(denied)
    result = ToolResult(
        content=(text_block(json.dumps(shape, ensure_ascii=False)),),
        structured=None if has_output_schema else shape,
        is_error=True,
        meta={DENIAL_META: shape},
    )
    return result.with_meta(**{GATE_META: shape.get("challenge")})


def advised(denied: Denied, *, cheaper: str | None, contact: str | None) -> Denied:
    """Return the denial with what the policy adds to its remedy: a cheaper way, and a person.

    A cheaper way is named where it can help: not against a budget of calls or turns, which
    it would need as well, and not where the caller has only to say something more.
    """
    remedy = denied.remedy
    if cheaper is not None and _may_go_cheaper(denied):
        action = remedy.action
        if action in (RemedyAction.REQUEST_LESS, RemedyAction.FINISH_WITH_WHAT_YOU_HAVE):
            action = RemedyAction.USE_CHEAPER_TOOL
        remedy = replace(
            remedy, action=action, cheaper=cheaper, text=f"{remedy.text} Cheaper: {cheaper}."
        )
    if contact is not None and denied.reason not in _FOR_THE_CALLER_ALONE:
        remedy = replace(remedy, contact=contact, text=f"{remedy.text} Whom to ask: {contact}.")
    return replace(denied, remedy=remedy)


def policy_denied(rule: str, tool: str) -> Denied:
    """Return the denial of a tool that the policy does not allow."""
    return Denied(
        reason=DenialReason.POLICY_DENIED,
        remedy=Remedy(
            action=RemedyAction.ASK_ADMINISTRATOR,
            text=(
                f"The rule {rule!r} does not allow {tool}. Use another tool, or ask an "
                "administrator to allow it in flyball.toml."
            ),
        ),
    )


def access_denied(rule: str, tool: str) -> Denied:
    """Return the denial of a tool that an access rule keeps from its caller."""
    return Denied(
        reason=DenialReason.POLICY_DENIED,
        remedy=Remedy(
            action=RemedyAction.ASK_ADMINISTRATOR,
            text=(
                f"The access rule {rule!r} keeps {tool} from you. Use another tool, or ask an "
                "administrator for it."
            ),
        ),
    )


def read_only(tool: str, *, why: str) -> Denied:
    """Return the denial of a tool that may change something where nothing may be changed."""
    return Denied(
        reason=DenialReason.READ_ONLY,
        remedy=Remedy(
            action=RemedyAction.CHANGE_APPROACH,
            text=(
                f"{tool} was not run: {why}, and {tool} is not known to only read. Use tools that "
                "only read (tools/list shows them), or tell the user what you would have changed."
            ),
        ),
    )


def quarantined(tool: str, *, upstream: str) -> Denied:
    """Return the denial of a tool whose definition nobody has approved as it is now."""
    return Denied(
        reason=DenialReason.QUARANTINED,
        remedy=Remedy(
            action=RemedyAction.ASK_ADMINISTRATOR,
            text=(
                f"{tool} is quarantined: what {upstream} says of it is new or was changed, and "
                "nobody has approved that. Ask an administrator to look at it and approve it "
                f"(GET /admin/v1/upstreams/{upstream}/manifest, then POST …/approve)."
            ),
        ),
    )


def arguments_too_large(tool: str, size: TooLarge) -> Denied:
    """Return the denial of a call whose arguments are above their bound."""
    return Denied(
        reason=DenialReason.ARGUMENTS_TOO_LARGE,
        size=size,
        remedy=Remedy(
            action=RemedyAction.REQUEST_LESS,
            text=(
                f"The arguments of {tool} are {size.got} bytes, and at most {size.limit} are "
                "allowed (arguments_bytes_max). Send less, or in several calls."
            ),
        ),
    )


def isolation_unavailable(why: str) -> Denied:
    """Return the denial of a local command that this host cannot hold."""
    return Denied(
        reason=DenialReason.ISOLATION_UNAVAILABLE,
        remedy=Remedy(
            action=RemedyAction.ASK_ADMINISTRATOR,
            text=(
                f"This host cannot enforce what the rule requires: {why}. An administrator can "
                'run `flyball doctor`, or set isolation = "best_effort" in the rule.'
            ),
        ),
    )


def ledger_unavailable() -> Denied:
    """Return the denial while budgets cannot be checked."""
    return Denied(
        reason=DenialReason.LEDGER_UNAVAILABLE,
        remedy=Remedy(
            action=RemedyAction.RETRY_LATER,
            text="Budgets cannot be checked at the moment, so nothing is started. Try again soon.",
        ),
    )


def overloaded(retry_after_ms: int) -> Denied:
    """Return the denial while the ledger's queue is full."""
    return Denied(
        reason=DenialReason.OVERLOADED,
        retry_after_ms=retry_after_ms,
        remedy=Remedy(
            action=RemedyAction.RETRY_LATER,
            text="Too many calls are waiting to be admitted. Try again in a moment.",
        ),
    )


def contended(why: str, *, retry_after_ms: int) -> Denied:
    """Return the denial of a call that an upstream, or the machine, has no room for now."""
    return Denied(
        reason=DenialReason.OVERLOADED,
        retry_after_ms=retry_after_ms,
        remedy=Remedy(
            action=RemedyAction.RETRY_LATER,
            text=f"{why} Nothing was started. Try again in {retry_after_ms} ms.",
        ),
    )


def upstream_unavailable(why: str, *, retry_after_ms: int) -> Denied:
    """Return the denial of a call whose upstream would fail it."""
    return Denied(
        reason=DenialReason.UPSTREAM_UNAVAILABLE,
        retry_after_ms=retry_after_ms,
        remedy=Remedy(
            action=RemedyAction.RETRY_LATER,
            text=(
                f"{why} Nothing was started. Try again in {-(-retry_after_ms // 1000)} s, or go "
                "on without it."
            ),
        ),
    )


def loop_detected(loop: Loop, *, tool: str, within_ms: int) -> Denied:
    """Return the denial of a call that would only repeat what is known."""
    if loop.measure is LoopMeasure.PAUSE:
        return Denied(
            reason=DenialReason.LOOP_DETECTED,
            remedy=Remedy(
                action=RemedyAction.ASK_ADMINISTRATOR,
                text=(
                    f"The call was not run and the session is paused: {head(loop, tool)}. Stop "
                    "here; an administrator can resume the session."
                ),
            ),
        )
    return Denied(
        reason=DenialReason.LOOP_DETECTED,
        retry_after_ms=within_ms,
        remedy=Remedy(
            action=RemedyAction.CHANGE_APPROACH,
            text=(
                f"The call was not run: {head(loop, tool)}. {ADVICE} To see whether something "
                f"has changed since, look again in {duration_words(within_ms)}."
            ),
        ),
    )


def flow_denied(stopped: Stopped, *, tool: str) -> Denied:
    """Return the denial of a call that a flow rule stops."""
    return Denied(
        reason=DenialReason.FLOW_DENIED,
        remedy=Remedy(
            action=RemedyAction.FINISH_WITH_WHAT_YOU_HAVE,
            text=(
                f"{tool} was not run: {stopped.why} (flow rule {stopped.rule!r}). Do only what "
                "the user asked for, or tell the user what you would have done and why."
            ),
        ),
    )


def guard_denied(guard: str, *, tool: str, why: str) -> Denied:
    """Return the denial of a call that a guard from outside of the house stops."""
    return Denied(
        reason=DenialReason.GUARD_DENIED,
        remedy=Remedy(
            action=RemedyAction.CHANGE_APPROACH,
            text=(
                f"{tool} was not run: the guard {guard!r} does not allow it: {why}. Do it another "
                "way, or tell the user what you would have done and why."
            ),
        ),
    )


def guard_failed(guard: str, *, tool: str, why: str) -> Denied:
    """Return the denial of a call about which a guard cannot be asked."""
    return Denied(
        reason=DenialReason.GUARD_DENIED,
        remedy=Remedy(
            action=RemedyAction.ASK_ADMINISTRATOR,
            text=(
                f"{tool} was not run: the guard {guard!r} cannot be asked: {why}. An administrator "
                "can mend it, take it out of plugins.enabled in flyball.toml, or set "
                'plugins.guard_failure = "allow" there.'
            ),
        ),
    )


# What the caller can put right without anybody's help.
_FOR_THE_CALLER_ALONE = (
    DenialReason.ARGUMENTS_TOO_LARGE,
    DenialReason.GATE_REQUIRED,
    DenialReason.TURN_UNKNOWN,
)
_CHEAPER_HELPS = (
    DenialReason.BUDGET_EXHAUSTED,
    DenialReason.ISOLATION_UNAVAILABLE,
    DenialReason.LOOP_DETECTED,
    DenialReason.POLICY_DENIED,
    DenialReason.UNIT_UNMEASURABLE,
    DenialReason.UNPRICED,
)
_UNITS_OF_ANY_CALL = (Unit.TOOL_CALLS, Unit.TURNS)


def _may_go_cheaper(denied: Denied) -> bool:
    if denied.reason not in _CHEAPER_HELPS:
        return False
    if denied.reason is DenialReason.LOOP_DETECTED and denied.retry_after_ms is None:
        # The whole session is paused; no other tool would be let through.
        return False
    short = (*(() if denied.shortage is None else (denied.shortage,)), *denied.also)
    return not any(each.unit in _UNITS_OF_ANY_CALL for each in short)


def _challenge_json(challenge: Challenge) -> dict[str, object]:
    return {
        "challenge": challenge.token,
        "puzzle": challenge.puzzle,
        "expires_at_ms": challenge.expires_at_ms,
        "answer_with": ANSWER,
    }


def _remedy_json(remedy: Remedy) -> dict[str, object]:
    shape: dict[str, object] = {"action": remedy.action.value, "text": remedy.text}
    if remedy.cheaper is not None:
        shape["cheaper"] = remedy.cheaper
    if remedy.contact is not None:
        shape["contact"] = remedy.contact
    return shape


def _shortage_json(shortage: Shortage) -> dict[str, object]:
    return {
        "budget_id": shortage.budget_id,
        "unit": shortage.unit.value,
        "limit": shortage.limit,
        "used": shortage.used,
        "reserved": shortage.reserved,
        "requested": shortage.requested,
        "resets_at_ms": shortage.resets_at_ms,
        **_rate_json(shortage),
    }


def _rate_json(shortage: Shortage) -> dict[str, object]:
    """Return what is said of a rate beside its limit; nothing of another budget."""
    if shortage.burst is None:
        return {}
    return {
        "every_ms": shortage.every_ms,
        "burst": shortage.burst,
        "remaining": shortage.remaining,
    }
