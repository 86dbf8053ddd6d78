"""The budgets, and the form in which one is made or changed, with a preview of what it would do."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from runtime.console.door import fields_of, inside_of, say_next
from runtime.console.framing import tenant_of
from runtime.console.inside import Answer, part
from runtime.console.pages.budget_form import (
    DAYS,
    DAYS_USUAL,
    MORE_UNITS,
    USUAL_UNITS,
    Faults,
    blank,
    budget_of_fields,
    fields_of_budget,
    number_of,
)
from runtime.console.pages.budget_use import Use, use_of, uses_of
from runtime.console.paths import PREFIX
from runtime.console.rendering import is_for_part, page
from runtime.token_files import TENANT

_PATH = f"{PREFIX}/budgets"
_ETAG = "etag"


async def budgets(request: Request) -> Response:
    """Return budgets by their ids, and how far each is used."""
    inside = inside_of(request)
    found = await inside.get(
        "/budgets",
        {"tenant": tenant_of(request), "cursor": request.query_params.get("cursor") or None},
    )
    uses = await uses_of(inside, found["items"])
    return page(request, "budgets.html", budgets=found["items"], uses=uses, next=found["next"])


async def new_budget(request: Request) -> Response:
    """Return an empty form."""
    return _form(request, blank(tenant_of(request) or TENANT))


async def make_budget(request: Request) -> Response:
    """Make the budget of the form, or show what is wrong with it."""
    fields = fields_of(request)
    body, faults = _new_body(fields)
    if faults:
        return _form(request, fields, faults=faults)
    answer = await inside_of(request).ask("POST", "/budgets", body=body)
    return await _saved(request, fields, answer)


async def budget(request: Request) -> Response:
    """Return the form of one budget, and how far it is used by whom."""
    budget_id, inside = request.path_params["budget_id"], inside_of(request)
    answer = await inside.ask("GET", f"/budgets/{part(budget_id)}")
    if not answer.is_ok:
        return page(request, "problem.html", status=answer.status, problem=answer.body)
    fields = fields_of_budget(answer.body) | {_ETAG: answer.etag or ""}
    return _form(request, fields, budget_id=budget_id, use=await use_of(inside, answer.body))


async def change_budget(request: Request) -> Response:
    """Change a budget as its form says, unless somebody else changed it meanwhile."""
    budget_id, fields = request.path_params["budget_id"], fields_of(request)
    body, faults = budget_of_fields(fields)
    if faults:
        return _form(request, fields, budget_id=budget_id, faults=faults)
    answer = await inside_of(request).ask(
        "PUT", f"/budgets/{part(budget_id)}", body=body, if_match=fields.get(_ETAG) or None
    )
    return await _saved(request, fields, answer, budget_id=budget_id)


async def retire_budget(request: Request) -> Response:
    """Retire a budget."""
    budget_id, fields = request.path_params["budget_id"], fields_of(request)
    answer = await inside_of(request).ask(
        "DELETE", f"/budgets/{part(budget_id)}", if_match=fields.get(_ETAG) or None
    )
    if answer.is_ok:
        return await _back(request, f"Budget {budget_id} was retired.")
    return page(request, "problem.html", status=answer.status, problem=answer.body)


async def preview_budget(request: Request) -> Response:
    """Return what the budget of the form would have denied; nothing is stored."""
    fields = fields_of(request)
    budget_id = fields.get("budget_id") or None
    body, faults = _new_body(fields) if budget_id is None else budget_of_fields(fields)
    preview, problem = None, None
    asked = {"new": body} if budget_id is None else {"id": budget_id, "change": body}
    if is_for_part(request):
        shown = _Shown(request, faults=faults, days=_days(fields))
        if faults:
            return JSONResponse(shown({}))
        sent = asked | {"days": _days(fields)}
        return inside_of(request).lines("/budgets/preview/whole", body=sent, told=shown)
    if not faults:
        answer = await inside_of(request).ask(
            "POST",
            "/budgets/preview",
            body=asked | {"days": _days(fields)},
        )
        preview, problem = (answer.body, None) if answer.is_ok else (None, answer.problem)
    return _form(
        request, fields, budget_id=budget_id, faults=faults, problem=problem, preview=preview
    )


class _Shown:
    """Tells a line of a preview as the page shows it: how far it is, at last a part of the page."""

    def __init__(self, request: Request, *, faults: Faults, days: int) -> None:
        self._request = request
        self._faults = faults
        self._days = days

    def __call__(self, line: Mapping[str, Any]) -> Mapping[str, Any]:
        if "progress" in line:
            return line
        preview, problem = line.get("preview"), line.get("problem")
        shown = page(
            self._request,
            "budget_preview.html",
            preview=preview,
            problem=problem,
            faults=self._faults,
            days_asked=self._days,
        )
        return {"html": bytes(shown.body).decode()}


def _days(fields: Mapping[str, str]) -> int:
    return number_of(fields.get("days", ""), DAYS_USUAL)


def _new_body(fields: Mapping[str, str]) -> tuple[dict[str, Any], Faults]:
    body, faults = budget_of_fields(fields)
    body |= {"tenant": fields.get("tenant", ""), "kind": fields.get("kind", "")}
    if fields.get("id"):
        body["id"] = fields["id"]
    return body, faults


async def _back(request: Request, notice: str) -> Response:
    """Return to the budgets, saying there what was done."""
    await say_next(request, notice)
    return RedirectResponse(_PATH, status_code=HTTPStatus.SEE_OTHER)


async def _saved(
    request: Request,
    fields: Mapping[str, str],
    answer: Answer,
    *,
    budget_id: str | None = None,
) -> Response:
    if answer.is_ok:
        done = "made" if budget_id is None else "saved"
        return await _back(request, f"Budget {answer.body['id']} was {done}.")
    problem = answer.problem or {}
    faults = {
        _place(fault["field"]): fault["detail"]
        for fault in problem.get("errors", ())
        if isinstance(fault, dict)
    }
    return _form(
        request,
        fields,
        budget_id=budget_id,
        faults=faults,
        problem=problem,
        status=answer.status,
    )


def _place(field: str) -> str:
    """Return the field of the form that a field of the API is written in."""
    first, _, rest = field.partition(".")
    match first:
        case "limits" if rest:
            return f"limit.{rest}"
        case "match" if rest:
            return rest
        case "window":
            return rest if rest in {"time_zone", "buckets"} else "length"
        case "warn_at_permille":
            return "warn_at"
        case _:
            return first


def _form(
    request: Request,
    fields: Mapping[str, str],
    *,
    budget_id: str | None = None,
    faults: Faults | None = None,
    problem: Mapping[str, Any] | None = None,
    preview: Mapping[str, Any] | None = None,
    status: int | None = None,
    use: Use | None = None,
) -> Response:
    refused = HTTPStatus.UNPROCESSABLE_ENTITY if faults else HTTPStatus.OK
    return page(
        request,
        "budget.html",
        status=refused if status is None else status,
        fields=_Written(fields),
        budget_id=budget_id,
        here=_PATH if budget_id is None else f"{_PATH}/{part(budget_id)}",
        faults=faults or {},
        problem=problem,
        preview=preview,
        use=use,
        usual_units=[unit.value for unit in USUAL_UNITS],
        more_units=[unit.value for unit in MORE_UNITS],
        days=DAYS,
        days_usual=DAYS_USUAL,
        days_asked=_days(fields),
    )


class _Written(dict[str, str]):
    """What stands in a form; what was not filled in is empty."""

    def __missing__(self, key: str) -> str:
        return ""


ROUTES = [
    Route(_PATH, budgets, methods=["GET"]),
    Route(_PATH, make_budget, methods=["POST"]),
    # No budget is called so: an id begins with a letter or a digit.
    Route(f"{_PATH}/~new", new_budget, methods=["GET"]),
    Route(f"{_PATH}/~preview", preview_budget, methods=["POST"]),
    Route(_PATH + "/{budget_id}", budget, methods=["GET"]),
    Route(_PATH + "/{budget_id}", change_budget, methods=["POST"]),
    Route(_PATH + "/{budget_id}/retire", retire_budget, methods=["POST"]),
]
