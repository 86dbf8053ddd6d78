"""The approvals inbox: what agents wait to be allowed, and what was answered."""

from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from runtime.console.door import fields_of, inside_of, say_next
from runtime.console.framing import tenant_of
from runtime.console.inside import part
from runtime.console.paths import PREFIX
from runtime.console.rendering import page

_PATH = f"{PREFIX}/approvals"
_INBOX = 50
_WORDS = {"approve": "approved", "reject": "rejected"}


async def inbox(request: Request) -> Response:
    """Return what waits for an answer, what waits longest first."""
    found = await inside_of(request).get(
        "/approvals", {"state": "pending", "tenant": tenant_of(request), "limit": _INBOX}
    )
    return page(
        request,
        "approvals.html",
        path_answered=f"{_PATH}/answered",
        waiting_here=list(reversed(found["items"])),
        has_more=found["next"] is not None,
        problem=None,
    )


async def answered(request: Request) -> Response:
    """Return what was asked, whatever became of it, the latest first."""
    found = await inside_of(request).get(
        "/approvals",
        {"tenant": tenant_of(request), "cursor": request.query_params.get("cursor") or None},
    )
    return page(
        request,
        "approvals_answered.html",
        path_inbox=_PATH,
        approvals=[one for one in found["items"] if one["state"] != "pending"],
        next=found["next"],
    )


async def answer(request: Request) -> Response:
    """Answer one question, and go on with the next."""
    fields, inside = fields_of(request), inside_of(request)
    approval_id = request.path_params["approval_id"]
    deed = fields.get("answer", "")
    if deed not in _WORDS:
        raise HTTPException(HTTPStatus.BAD_REQUEST)
    told = await inside.ask(
        "POST",
        f"/approvals/{part(approval_id)}/{deed}",
        body={"reason": fields.get("reason", "")},
    )
    if not told.is_ok:
        return page(request, "problem.html", status=told.status, problem=told.body)
    await say_next(request, f"{told.body['tool']} was {_WORDS[deed]}.")
    return RedirectResponse(_PATH, status_code=HTTPStatus.SEE_OTHER)


ROUTES = [
    Route(_PATH, inbox, methods=["GET"]),
    Route(f"{_PATH}/answered", answered, methods=["GET"]),
    Route(_PATH + "/{approval_id}", answer, methods=["POST"]),
]
