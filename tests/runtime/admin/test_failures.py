from types import ModuleType

import pytest

from governor import errors as governor
from governor.amounts import Unit
from memory_store import errors as store
from runtime import errors as runtime
from runtime.failures import (
    DENIED,
    FAILURES,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    UNAVAILABLE,
    problem_for,
)
from tool_gateway import errors as gateway


@pytest.mark.parametrize("package", [governor, store, runtime, gateway])
def test_every_error_has_a_line_of_its_own(package: ModuleType) -> None:
    errors = {
        kind
        for kind in vars(package).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }

    assert errors - set(FAILURES) == set(), "say in runtime/failures.py how these end"


def test_an_unforeseen_error_tells_nothing() -> None:
    problem = problem_for(KeyError("swordfish"))

    assert (problem.status, problem.code) == (500, -32603)
    assert "swordfish" not in str(problem.document())


def test_an_error_of_ours_that_is_no_callers_business_tells_nothing() -> None:
    problem = problem_for(store.SchemaMismatchError("/var/lib/flyball/flyball.db is too new"))

    assert problem.status == 500
    assert "/var/lib" not in str(problem.document())


def test_a_kind_without_a_line_ends_like_its_nearest_ancestor() -> None:
    class GoneError(store.NotFoundError):
        """It is gone."""

    problem = problem_for(GoneError())

    assert (problem.status, problem.detail) == (404, "It is gone.")


def test_another_agents_session_is_answered_like_an_unknown_one() -> None:
    problem = problem_for(store.SessionOwnerError())

    assert (problem.status, problem.type) == (404, "urn:flyball:problem:not-found")
    assert "another" not in problem.detail


def test_figures_reach_the_caller() -> None:
    above = problem_for(store.AboveQuotaError(unit=Unit.TURNS, limit=9, quota=5)).document()
    stale = problem_for(store.VersionConflictError(expected=1, actual=2)).document()

    assert (above["unit"], above["limit"], above["quota"]) == ("turns", 9, 5)
    assert (stale["expected"], stale["actual"]) == (1, 2)


def test_a_full_queue_says_when_to_come_back() -> None:
    problems = [
        problem_for(store.StoreOverloadedError()),
        problem_for(gateway.LedgerOverloadedError()),
    ]

    for problem in problems:
        assert problem.status == 503
        assert problem.headers == {"Retry-After": "1"}


def _made(kind: type[gateway.GatewayError]) -> gateway.GatewayError:
    """Return an error of that kind as it is when nothing is said of it."""
    if issubclass(kind, gateway.UpstreamSaidError):
        return kind("", code=1, words="")
    if issubclass(kind, gateway.OfferDeniedError):
        return kind({"remedy": {"text": "Wait."}})
    return kind()


def test_every_error_of_the_gateway_has_a_json_rpc_code_that_says_whose_it_is() -> None:
    codes = {
        kind.__name__: problem_for(_made(kind)).code
        for kind in vars(gateway).values()
        if isinstance(kind, type) and issubclass(kind, gateway.GatewayError)
    }

    assert codes == {
        "GatewayError": INTERNAL_ERROR,
        "UnknownToolError": INVALID_PARAMS,
        "IdempotencyConflictError": INVALID_REQUEST,
        "InvalidContextError": INVALID_PARAMS,
        "CatalogError": INTERNAL_ERROR,
        "LedgerUnavailableError": UNAVAILABLE,
        "LedgerOverloadedError": UNAVAILABLE,
        "HoldEndedError": INVALID_REQUEST,
        "SubSessionRefusedError": INVALID_PARAMS,
        "ArchiveMissError": INVALID_PARAMS,
        "ArchiveDamagedError": INTERNAL_ERROR,
        "ArchiveUnavailableError": UNAVAILABLE,
        "ExperienceMissError": INVALID_PARAMS,
        "ExperienceDamagedError": INTERNAL_ERROR,
        "MemoryRefusedError": INVALID_PARAMS,
        "MemoryUnavailableError": UNAVAILABLE,
        "UpstreamError": INTERNAL_ERROR,
        "UpstreamNotReachedError": INTERNAL_ERROR,
        "UpstreamDownError": INTERNAL_ERROR,
        "UpstreamRefusedError": INTERNAL_ERROR,
        "EgressDeniedError": INTERNAL_ERROR,
        "UpstreamFailedError": INTERNAL_ERROR,
        "UpstreamLateError": INTERNAL_ERROR,
        "UpstreamLostError": INTERNAL_ERROR,
        "UpstreamSaidError": INTERNAL_ERROR,
        "UnknownOfferError": INVALID_PARAMS,
        "UnknownSessionError": INVALID_PARAMS,
        "StaleStateError": INVALID_PARAMS,
        "CallerLimitError": INVALID_REQUEST,
        "OfferDeniedError": DENIED,
    }


def test_a_value_that_cannot_be_stored_is_named_and_not_repeated() -> None:
    problem = problem_for(store.UnstorableError(names=("name",)))

    assert (problem.status, problem.detail) == (422, "a value cannot be stored: name")


def test_a_field_that_the_governor_names_is_at_fault() -> None:
    problem = problem_for(governor.InvalidBudgetError("subject: not this one"))

    assert problem.document()["errors"] == [{"field": "subject", "detail": "not this one"}]


def test_no_code_is_one_that_mcp_keeps_for_itself() -> None:
    codes = {failure.code for failure in FAILURES.values()}

    assert all(not -32099 <= code <= -32020 for code in codes)
    assert codes.isdisjoint({-32000, -32001, -32002})
