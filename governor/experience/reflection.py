"""What a session's calls teach by rule: which error of which tool, and what worked after it.

A model that reflects costs money and may make things up. That a tool failed with some words, and
that the next call of it, or of another tool, went well, is there to be counted. What happened in
two sessions or more becomes a bullet, and each further session in which it happened strengthens
or weakens it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ERROR_CHARS_MAX = 160
STEPS_MAX = 2_000
SESSIONS_MIN = 2
# Later than so many calls, what worked had another reason.
_AHEAD = 3
_MASKS = (
    (re.compile(r"https?://\S+"), "URL"),
    (re.compile(r"(?<![\w.])[~.]{0,2}/[\w./@+-]+"), "PATH"),
    (re.compile(r"\b[0-9a-fA-F-]{16,}\b"), "ID"),
    (re.compile(r"\b\w*\d[\w.:-]*\b"), "N"),
)
_QUOTES = str.maketrans({'"': "'", "`": "'", "\u201c": "'", "\u201d": "'"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A tool call as it ended; `error` is what the tool said where it failed, None where not.

    `arguments_hash` tells whether it was asked for the same thing again.
    """

    tool: str
    error: str | None
    arguments_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """An error of a tool, and what was done next that worked; None where nothing did.

    `is_changed` tells that the same tool worked with other arguments.
    """

    tool: str
    error: str
    then: str | None
    is_changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeated:
    """A recovery that was seen in several sessions; `sessions` are those, in their order."""

    recovery: Recovery
    sessions: tuple[str, ...]


def error_class(text: str) -> str:
    """Return an error without what is different each time: numbers, paths, ids, addresses."""
    found = " ".join(text.translate(_QUOTES).split())
    for pattern, word in _MASKS:
        found = pattern.sub(word, found)
    found = "".join(sign for sign in found if sign.isprintable())
    return found[:ERROR_CHARS_MAX].strip()


def recoveries_in(steps: Sequence[Step]) -> tuple[Recovery, ...]:
    """Return each error of a session once, with what worked within the next few calls.

    The same tool with other arguments says the most, then whichever tool worked first.
    """
    found: dict[tuple[str, str], Recovery] = {}
    kept = steps[-STEPS_MAX:]
    for place, step in enumerate(kept):
        if step.error is None:
            continue
        error = error_class(step.error)
        if error:
            # The last end of it stands: what was tried before did not do.
            found[step.tool, error] = _recovered(step, error, kept[place + 1 : place + 1 + _AHEAD])
    return tuple(found.values())


def _recovered(step: Step, error: str, ahead: Sequence[Step]) -> Recovery:
    worked = [one for one in ahead if one.error is None]
    same = next((one for one in worked if one.tool == step.tool), None)
    then = same or next(iter(worked), None)
    return Recovery(
        tool=step.tool,
        error=error,
        then=None if then is None else then.tool,
        is_changed=same is not None and same.arguments_hash != step.arguments_hash,
    )


def repeated_in(sessions: Iterable[tuple[str, Sequence[Recovery]]]) -> tuple[Repeated, ...]:
    """Return what was seen in two sessions or more; the most often seen first."""
    seen: dict[Recovery, list[str]] = {}
    for session, recoveries in sessions:
        for recovery in dict.fromkeys(recoveries):
            seen.setdefault(recovery, []).append(session)
    found = [
        Repeated(recovery=recovery, sessions=tuple(who))
        for recovery, who in seen.items()
        if len(who) >= SESSIONS_MIN
    ]
    return tuple(sorted(found, key=lambda one: (-len(one.sessions), one.recovery.tool)))


def said_of(recovery: Recovery) -> str:
    """Return the words of a bullet; what the tool said is quoted, for it is the tool's word."""
    failed = _failed(recovery)
    if recovery.then is None:
        return f"{failed}, nothing that was tried next worked: do not repeat it"
    if recovery.then == recovery.tool:
        how = "with other arguments" if recovery.is_changed else "once more"
        return f"{failed}, calling it {how} worked"
    return f"{failed}, {recovery.then} worked next"


def votes_on(
    bullets: Iterable[tuple[str, str]], recoveries: Sequence[Recovery]
) -> tuple[tuple[str, bool], ...]:
    """Return what a session says of bullets, each an id and its words: it helped, or did not.

    A bullet that names another way than the one that worked is neither.
    """
    met = [(_failed(one), one) for one in recoveries]
    found: list[tuple[str, bool]] = []
    for bullet, text in bullets:
        now = next((one for failed, one in met if text.startswith(f"{failed},")), None)
        if now is None:
            continue
        if said_of(now) == text:
            found.append((bullet, True))
        elif now.then is None:
            found.append((bullet, False))
    return tuple(found)


def _failed(recovery: Recovery) -> str:
    return f'when {recovery.tool} fails with "{recovery.error}"'
