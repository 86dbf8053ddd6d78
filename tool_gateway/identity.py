"""Who calls, in which session and turn, and under which idempotency key."""

from collections.abc import Mapping
from dataclasses import dataclass

from governor.ids import PrincipalId, TaskClass, TenantId, TurnId
from tool_gateway.errors import InvalidContextError

SESSION_HEADER = "flyball-session"
TURN_HEADER = "flyball-turn"
IDEMPOTENCY_HEADER = "idempotency-key"
TASK_CLASS_HEADER = "flyball-task-class"
LEGACY_SESSION_HEADER = "mcp-session-id"
NAME_LENGTH_MAX = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated agent and the token that it used."""

    tenant: TenantId
    agent: PrincipalId
    token_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What a request says about itself; None where it says nothing."""

    session_name: str | None
    turn: TurnId | None
    idempotency_key: str | None
    task_class: TaskClass | None = None


def read_context(headers: Mapping[str, str], meta: Mapping[str, object]) -> CallContext:
    """Return the session, turn, key and class that a request names, headers before `_meta`.

    Raises:
        InvalidContextError: a value is empty, too long or not printable.
    """
    turn = _named(headers, meta, TURN_HEADER, "flyball/turn")
    task_class = _named(headers, meta, TASK_CLASS_HEADER, "flyball/task_class")
    return CallContext(
        session_name=_named(headers, meta, SESSION_HEADER, "flyball/session")
        or _checked(headers.get(LEGACY_SESSION_HEADER), LEGACY_SESSION_HEADER),
        turn=None if turn is None else TurnId(turn),
        idempotency_key=_named(headers, meta, IDEMPOTENCY_HEADER, "flyball/idempotency_key"),
        task_class=None if task_class is None else TaskClass(task_class),
    )


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
