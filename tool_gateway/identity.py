"""Who calls, in which session and turn, and under which idempotency key."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from governor.fairness.claim import DEADLINE_MS_MAX, NO_URGENCY, Priority, Urgency
from governor.ids import PrincipalId, TaskClass, TenantId, TurnId
from governor.intents import NO_INTENT, Intent
from tool_gateway.bearer import Bearer
from tool_gateway.declared import intent_in_meta
from tool_gateway.errors import InvalidContextError
from tool_gateway.results import IDEMPOTENCY_META

SESSION_HEADER = "flyball-session"
TURN_HEADER = "flyball-turn"
IDEMPOTENCY_HEADER = "idempotency-key"
TASK_CLASS_HEADER = "flyball-task-class"
PRIORITY_HEADER = "flyball-priority"
DEADLINE_HEADER = "flyball-deadline-ms"
READ_ONLY_HEADER = "flyball-read-only"
READ_ONLY_META = "flyball/read_only"
LEGACY_SESSION_HEADER = "mcp-session-id"
NAME_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated agent and the token that it used.

    `bearer` is the token itself where an authorization server issued it; ours are never kept.
    One that `is_read_only` is good for what changes nothing, whatever its requests wish. `pin` is
    the name of the one session that the token is good for, with those beneath it.
    """

    tenant: TenantId
    agent: PrincipalId
    token_id: str
    bearer: Bearer | None = field(default=None, compare=False, repr=False)
    is_read_only: bool = False
    pin: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What a request says about itself; None where it says nothing.

    `is_read_only` narrows what its sender may have to what changes nothing. `intent` is what it
    says that its call needs. `takes_bytes` is said by a front that hands on bytes, by no request.
    """

    session_name: str | None
    turn: TurnId | None
    idempotency_key: str | None
    task_class: TaskClass | None = None
    urgency: Urgency = NO_URGENCY
    is_read_only: bool = False
    intent: Intent = NO_INTENT
    takes_bytes: bool = False


def read_context(
    headers: Mapping[str, str], meta: Mapping[str, object], *, caller: Caller | None = None
) -> CallContext:
    """Return the session, turn, key and class that a request names, headers before `_meta`.

    What its `caller` may not do, no request of it can ask for. The session of the transport is
    none of a caller's that has only one: its client sends what the protocol makes it send.

    Raises:
        InvalidContextError: a value is empty, too long or not printable.
    """
    session = _named(headers, meta, SESSION_HEADER, "flyball/session")
    if session is None and (caller is None or caller.pin is None):
        session = _checked(headers.get(LEGACY_SESSION_HEADER), LEGACY_SESSION_HEADER)
    turn = _named(headers, meta, TURN_HEADER, "flyball/turn")
    task_class = _named(headers, meta, TASK_CLASS_HEADER, "flyball/task_class")
    return CallContext(
        session_name=session,
        turn=None if turn is None else TurnId(turn),
        idempotency_key=_named(headers, meta, IDEMPOTENCY_HEADER, IDEMPOTENCY_META),
        task_class=None if task_class is None else TaskClass(task_class),
        urgency=_urgency(headers, meta),
        is_read_only=_read_only(headers, meta) or (caller is not None and caller.is_read_only),
        intent=intent_in_meta(meta),
    )


def _read_only(headers: Mapping[str, str], meta: Mapping[str, object]) -> bool:
    """Tell whether the header or the member asks for it: neither takes back the other's wish."""
    in_header, in_meta = headers.get(READ_ONLY_HEADER), meta.get(READ_ONLY_META)
    if in_header not in (None, "true", "false"):
        message = f"{READ_ONLY_HEADER}: expected true or false, got {in_header!r:.80}"
        raise InvalidContextError(message)
    if in_meta is not None and not isinstance(in_meta, bool):
        message = f'_meta["{READ_ONLY_META}"]: expected true or false, got {in_meta!r:.80}'
        raise InvalidContextError(message)
    return in_header == "true" or in_meta is True


def _urgency(headers: Mapping[str, str], meta: Mapping[str, object]) -> Urgency:
    priority = _named(headers, meta, PRIORITY_HEADER, "flyball/priority")
    deadline = headers.get(DEADLINE_HEADER, meta.get("flyball/deadline_ms"))
    if priority is None and deadline is None:
        return NO_URGENCY
    try:
        asked = None if priority is None else Priority(priority)
    except ValueError:
        words = ", ".join(Priority)
        message = f"flyball/priority: use one of {words}, not {priority!r:.80}"
        raise InvalidContextError(message) from None
    return Urgency(priority=asked, deadline_ms=_deadline_ms(deadline))


def _deadline_ms(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[: len(str(DEADLINE_MS_MAX)) + 1])
    if type(value) is not int or not 0 < value <= DEADLINE_MS_MAX:
        message = (
            "flyball/deadline_ms: expected how many milliseconds the call may wait to start, "
            f"1 to {DEADLINE_MS_MAX}, got {value!r:.80}"
        )
        raise InvalidContextError(message)
    return value


def _named(
    headers: Mapping[str, str], meta: Mapping[str, object], header: str, key: str
) -> str | None:
    in_header = _checked(headers.get(header), header)
    return in_header if in_header is not None else _checked(meta.get(key), f'_meta["{key}"]')


def _checked(value: object, where: str) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value or not value.isprintable():
        message = f"{where}: expected a printable string, got {value!r:.80}"
        raise InvalidContextError(message)
    if len(value) > NAME_LENGTH_MAX:
        message = f"{where}: {len(value)} characters, at most {NAME_LENGTH_MAX} are allowed"
        raise InvalidContextError(message)
    return value
