"""The one table that says how each error ends: over HTTP, over JSON-RPC, in words."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import NamedTuple

from governor import errors as governor
from memory_store import errors as store
from runtime import errors as runtime
from tool_gateway import errors as gateway

# JSON-RPC's own codes, and two from the range that MCP leaves to implementations.
INVALID_REQUEST = -32600
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
UNAVAILABLE = -32010
DENIED = -32011

_BUG = "The sidecar failed at this; its log says why."
_RETRY_SECONDS = 1


class Failure(NamedTuple):
    """How one kind of error ends; `detail` stands in for a message that is not for callers."""

    status: HTTPStatus
    code: int
    title: str
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What is wrong with one field of a request."""

    field: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """An error as its caller sees it: an RFC 9457 document, or `code` with `detail`.

    `members` are what a program needs to act on this type of problem.
    """

    status: HTTPStatus
    code: int
    title: str
    detail: str
    faults: tuple[Fault, ...] = ()
    members: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def type(self) -> str:
        """Return the stable name that programs match on."""
        return f"urn:flyball:problem:{self.title.lower().replace(' ', '-')}"

    def document(self, *, instance: str | None = None) -> dict[str, object]:
        """Return the problem document; `instance` is what was asked for."""
        document: dict[str, object] = {
            **self.members,
            "type": self.type,
            "title": self.title,
            "status": int(self.status),
            "detail": self.detail,
        }
        if instance is not None:
            document["instance"] = instance
        if self.faults:
            document["errors"] = [
                {"field": fault.field, "detail": fault.detail} for fault in self.faults
            ]
        return document


class ProblemError(runtime.RuntimeFaultError):
    """The request ends with a problem that its handler has put together."""

    def __init__(self, problem: Problem) -> None:
        """Keep the problem for the one who answers."""
        super().__init__(problem.detail)
        self.problem = problem


_INTERNAL = Failure(HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL_ERROR, "Internal error", _BUG)
_UNAVAILABLE = Failure(HTTPStatus.SERVICE_UNAVAILABLE, UNAVAILABLE, "Store unavailable")
_OVERLOADED = Failure(HTTPStatus.SERVICE_UNAVAILABLE, UNAVAILABLE, "Overloaded")
_NOT_FOUND = Failure(HTTPStatus.NOT_FOUND, INVALID_PARAMS, "Not found")
_INVALID = Failure(HTTPStatus.UNPROCESSABLE_ENTITY, INVALID_PARAMS, "Invalid request")
_DAMAGED = Failure(HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL_ERROR, "Experience damaged")
_UPSTREAM = Failure(HTTPStatus.BAD_GATEWAY, INTERNAL_ERROR, "Upstream failed")

# The nearest class of an error's ancestry decides. A root of a package stands for what its
# package did not expect to show to a caller.
FAILURES: Mapping[type[Exception], Failure] = {
    store.StoreError: _INTERNAL,
    store.StoreUnavailableError: _UNAVAILABLE,
    store.LedgerBreachError: _UNAVAILABLE,
    store.StoreOverloadedError: _OVERLOADED,
    store.UnstorableError: _INVALID,
    store.SchemaMismatchError: _INTERNAL,
    store.StateDirectoryBusyError: _INTERNAL,
    store.BackupError: _INTERNAL,
    store.NotFoundError: _NOT_FOUND,
    store.UnknownReservationError: _NOT_FOUND,
    store.ArchiveNotFoundError: _NOT_FOUND,
    store.AlreadyExistsError: Failure(HTTPStatus.CONFLICT, INVALID_REQUEST, "Already exists"),
    store.VersionConflictError: Failure(
        HTTPStatus.PRECONDITION_FAILED, INVALID_REQUEST, "Version conflict"
    ),
    store.AboveQuotaError: Failure(HTTPStatus.CONFLICT, INVALID_REQUEST, "Above quota"),
    store.NotABudgetError: Failure(HTTPStatus.CONFLICT, INVALID_REQUEST, "Not a budget"),
    store.TokenEndedError: Failure(HTTPStatus.CONFLICT, INVALID_REQUEST, "Token ended"),
    store.SessionEndedError: Failure(HTTPStatus.CONFLICT, INVALID_REQUEST, "Session ended"),
    # Another agent's session is answered like one that does not exist.
    store.SessionOwnerError: _NOT_FOUND._replace(detail="There is no such session."),
    store.ExperienceNotFoundError: _NOT_FOUND,
    store.NamespaceNotFoundError: _NOT_FOUND,
    store.ExperienceCorruptError: _DAMAGED,
    store.ExperienceTooLargeError: Failure(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, INVALID_PARAMS, "Too large"
    ),
    store.ExperienceQuotaError: Failure(HTTPStatus.CONFLICT, INVALID_REQUEST, "Above quota"),
    store.ExperienceSupersededError: _INVALID,
    store.ExperienceRevokedError: _INVALID,
    store.InvalidExperienceError: _INVALID,
    store.ArchiveTooLargeError: Failure(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE, INVALID_PARAMS, "Too large"
    ),
    store.ArchiveCorruptError: Failure(
        HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL_ERROR, "Archive damaged"
    ),
    store.InvalidCursorError: _INVALID,
    store.SearchTooWideError: _INVALID,
    gateway.GatewayError: _INTERNAL,
    gateway.UnknownToolError: _NOT_FOUND,
    gateway.UnknownOfferError: _NOT_FOUND,
    gateway.UnknownSessionError: _NOT_FOUND,
    gateway.OfferDeniedError: Failure(HTTPStatus.FORBIDDEN, DENIED, "Denied"),
    gateway.CallerLimitError: Failure(
        HTTPStatus.TOO_MANY_REQUESTS, INVALID_REQUEST, "Too many at once"
    ),
    gateway.StaleStateError: _INVALID,
    gateway.IdempotencyConflictError: Failure(
        HTTPStatus.CONFLICT, INVALID_REQUEST, "Idempotency conflict"
    ),
    gateway.InvalidContextError: _INVALID,
    gateway.CatalogError: _INTERNAL,
    gateway.SubSessionRefusedError: _INVALID,
    gateway.HoldEndedError: Failure(HTTPStatus.CONFLICT, INVALID_REQUEST, "Already ended"),
    gateway.LedgerUnavailableError: _UNAVAILABLE,
    gateway.LedgerOverloadedError: _OVERLOADED,
    gateway.ExperienceMissError: _NOT_FOUND,
    gateway.ExperienceDamagedError: _DAMAGED,
    gateway.MemoryRefusedError: _INVALID,
    gateway.MemoryUnavailableError: _UNAVAILABLE,
    gateway.ArchiveMissError: _NOT_FOUND,
    gateway.ArchiveDamagedError: Failure(
        HTTPStatus.INTERNAL_SERVER_ERROR, INTERNAL_ERROR, "Archive damaged"
    ),
    gateway.ArchiveUnavailableError: _UNAVAILABLE,
    gateway.UpstreamError: _UPSTREAM,
    gateway.UpstreamNotReachedError: _UPSTREAM._replace(title="Upstream not reached"),
    gateway.UpstreamDownError: _UPSTREAM._replace(title="Upstream not reached"),
    gateway.UpstreamRefusedError: _UPSTREAM._replace(title="Upstream not reached"),
    gateway.EgressDeniedError: _UPSTREAM._replace(title="Egress denied"),
    gateway.UpstreamFailedError: _UPSTREAM,
    gateway.UpstreamLateError: _UPSTREAM,
    gateway.UpstreamLostError: _UPSTREAM,
    gateway.UpstreamSaidError: _UPSTREAM,
    governor.InvalidRankerError: _INTERNAL,
    governor.GovernorError: _INTERNAL,
    governor.InvalidAmountError: _INVALID,
    governor.InvalidBudgetError: _INVALID,
    governor.InvalidScopeError: _INVALID,
    governor.InvalidTransitionError: Failure(HTTPStatus.CONFLICT, INVALID_REQUEST, "Already ended"),
    governor.InvalidPolicyError: _INVALID,
    governor.InvalidPriceError: _INVALID,
    governor.InvalidEffortError: _INVALID,
    governor.InvalidVectorsError: _INTERNAL,
    governor.InvalidRankerError: _INTERNAL,
    governor.TooFewOutcomesError: _INVALID,
    runtime.RuntimeFaultError: _INTERNAL,
    runtime.ConfigError: _INTERNAL,
    runtime.ListenError: _INTERNAL,
    runtime.PreviewsBusyError: _OVERLOADED,
    runtime.MemoryStaysError: Failure(HTTPStatus.CONFLICT, INVALID_REQUEST, "Stays"),
    runtime.NotBetterError: Failure(HTTPStatus.CONFLICT, INVALID_REQUEST, "Not better"),
    runtime.RouterModelError: _INVALID,
    runtime.ProviderError: Failure(HTTPStatus.BAD_GATEWAY, INTERNAL_ERROR, "Provider failed"),
}


def problem_for(error: Exception) -> Problem:
    """Return what the caller is told about `error`; nothing of an unforeseen one is told."""
    if isinstance(error, ProblemError):
        return error.problem
    kinds = type(error).__mro__
    failure = next((FAILURES[kind] for kind in kinds if kind in FAILURES), _INTERNAL)
    is_overloaded = failure.title == _OVERLOADED.title
    return Problem(
        status=failure.status,
        code=failure.code,
        title=failure.title,
        detail=str(error) if failure.detail is None else failure.detail,
        faults=_faults_of(error),
        members=_members_of(error),
        headers={"Retry-After": str(_RETRY_SECONDS)} if is_overloaded else {},
    )


def invalid(*faults: Fault) -> Problem:
    """Return the problem of a request whose fields are at fault."""
    named = "; ".join(f"{fault.field}: {fault.detail}" for fault in faults)
    return Problem(
        status=_INVALID.status,
        code=_INVALID.code,
        title=_INVALID.title,
        detail=named,
        faults=faults,
    )


def _faults_of(error: Exception) -> tuple[Fault, ...]:
    """Return the field that `error` is about, if it is about one."""
    match error:
        case store.InvalidCursorError():
            return (Fault(field="cursor", detail=str(error)),)
        case (
            governor.InvalidAmountError()
            | governor.InvalidBudgetError()
            | governor.InvalidScopeError()
        ):
            # These say "field: what is wrong", unless they carry only their docstring.
            name, separator, detail = str(error).partition(": ")
            return (Fault(field=name, detail=detail),) if separator else ()
        case _:
            return ()


def _members_of(error: Exception) -> Mapping[str, object]:
    """Return the figures that `error` carries."""
    match error:
        case store.AboveQuotaError():
            return {"unit": error.unit.value, "limit": error.limit, "quota": error.quota}
        case store.VersionConflictError():
            return {"expected": error.expected, "actual": error.actual}
        case _:
            return {}
