"""What a model and a program are told about a loop."""

from governor.loops import Loop, LoopKind, LoopMeasure

ADVICE = "Change the arguments, use another tool, or finish with what you have."
_HEADS = {
    LoopKind.IDENTICAL: "the same call of {tool} was made {count} times with the same result",
    LoopKind.ALTERNATING: (
        "the same calls were made in turn {count} times, {tool} among them, with the same results"
    ),
    LoopKind.NEAR_IDENTICAL: (
        "nearly the same call of {tool} was made {count} times with the same result"
    ),
    LoopKind.NO_PROGRESS: "the last {count} calls, {tool} among them, all brought the same result",
}


def head(loop: Loop, tool: str) -> str:
    """Return what goes on, as half a sentence."""
    return _HEADS[loop.kind].format(tool=tool, count=loop.count)


def reminder(loop: Loop, tool: str) -> str:
    """Return the line under a result that adds nothing to an earlier one."""
    return f"[loop: {head(loop, tool)}. {ADVICE}]"


def served_note(loop: Loop, tool: str) -> str:
    """Return the line under an earlier result that answers a call again."""
    return f"[loop: {head(loop, tool)}, so this is the earlier result; nothing was run. {ADVICE}]"


def loop_json(loop: Loop) -> dict[str, object]:
    """Return a loop as `_meta["flyball/loop"]` shows it."""
    shape: dict[str, object] = {
        "kind": loop.kind.value,
        "count": loop.count,
        "measure": loop.measure.value,
    }
    if loop.measure is LoopMeasure.SERVE:
        shape["served_from"] = loop.like.answer
    return shape
