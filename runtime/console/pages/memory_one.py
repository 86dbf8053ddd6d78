"""One experience: its text, whose it is, what it was made of, what may be done to it."""

import codecs
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from runtime.console.door import fields_of, inside_of, say_next
from runtime.console.inside import Answer, AnsweredProblemError, Inside, part
from runtime.console.pages.budget_form import number_of
from runtime.console.pages.memory import PATH, whose
from runtime.console.rendering import page

# What of a content one page shows.
_SHOWN_BYTES = 64 * 1024
_MARKED = {
    "evidence": ("promote", "evidence"),
    "instruction": ("promote", "instruction"),
    "quarantine": ("withdraw", "quarantined"),
    "revoke": ("withdraw", "revoked"),
}
_DONE = {
    "evidence": "It is found from now on.",
    "quarantine": "It waits in quarantine: nobody finds it until it is promoted.",
    "revoke": "It was revoked, with all that was made of it.",
    "erase": "It was erased for good, with all that was made of it.",
}
_ADOPTED = "This is the instruction that was made of it, in your own name."


async def experience(request: Request) -> Response:
    """Return one experience."""
    return await _shown(request, problem=None)


async def do(request: Request) -> Response:
    """Promote an experience, withdraw or erase it, and show what became of it."""
    index, deed = request.path_params["index"], request.path_params["deed"]
    why, tenant = fields_of(request).get("why", ""), whose(request)
    inside = inside_of(request)
    if deed == "erase":
        body: dict[str, Any] = {"tenant": tenant, "indices": [index], "why": why}
        answer = await inside.ask("POST", "/memory/erase", body=body)
    elif deed in _MARKED:
        verb, whereto = _MARKED[deed]
        body = {"tenant": tenant, "to": whereto, "why": why}
        answer = await inside.ask("POST", f"/memory/experiences/{part(index)}/{verb}", body=body)
    else:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    if not answer.is_ok:
        return await _shown(request, problem=answer.problem, status=answer.status)
    to, told = _onwards(answer, index, deed)
    await say_next(request, told)
    return RedirectResponse(to, status_code=HTTPStatus.SEE_OTHER)


def _onwards(answer: Answer, index: str, deed: str) -> tuple[str, str]:
    """Return where to go from what was done, and what to say there."""
    if deed == "erase":
        return PATH, _DONE[deed]
    if deed not in ("evidence", "instruction"):
        return f"{PATH}/{part(index)}", _DONE[deed]
    promoted = answer.body["experience"]["index"]
    told = _ADOPTED if answer.body["is_adopted"] else _DONE["evidence"]
    return f"{PATH}/{part(promoted)}", told


async def _shown(
    request: Request, *, problem: Mapping[str, Any] | None, status: int = HTTPStatus.OK
) -> Response:
    index, inside, tenant = request.path_params["index"], inside_of(request), whose(request)
    at, of = f"/memory/experiences/{part(index)}", {"tenant": tenant}
    found = await inside.get(at, of)
    spaces = await inside.get("/memory/namespaces", of)
    names = {one["id"]: one["name"] for one in spaces["items"]}
    offset = number_of(request.query_params.get("offset", ""), 0)
    content = await _content(inside, at, tenant, offset)
    return page(
        request,
        "memory_one.html",
        status=status,
        one=found,
        relations=await inside.get(f"{at}/relations", of),
        content=content,
        proof=await _proof(inside, content["receipt"]),
        namespace=names.get(found["namespace"], found["namespace"]),
        here=f"{PATH}/{part(index)}",
        problem=problem,
    )


async def _content(inside: Inside, at: str, tenant: str, offset: int) -> dict[str, Any]:
    """Return a part of the content as the text that it is, None where it is none."""
    answer = await inside.ask("GET", f"{at}/content", query={"tenant": tenant, "offset": offset})
    if answer.status == HTTPStatus.NOT_FOUND:
        raise AnsweredProblemError(answer)
    if not answer.is_ok:
        # What is known of it is shown though its content is damaged.
        damaged = {"problem": answer.problem, "receipt": None}
        return {"text": None, "offset": offset, "next": None, **damaged}
    shown = answer.body[:_SHOWN_BYTES]
    is_whole = len(shown) == len(answer.body)
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        # A character that the end of the part cuts in two stands in the next one.
        text = decoder.decode(shown, final=is_whole)
    except UnicodeDecodeError:
        no_text = {"problem": None, "receipt": answer.receipt}
        return {"text": None, "offset": offset, "next": None, **no_text}
    end = offset + len(shown) - len(decoder.getstate()[0])
    return {
        "text": text,
        "offset": offset,
        "next": None if is_whole else end,
        "problem": None,
        "receipt": answer.receipt,
    }


async def _proof(inside: Inside, receipt: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what the receipt of this reading proves, None where the content is damaged."""
    if receipt is None:
        return None
    proved = await inside.ask("POST", "/memory/receipts", body=receipt)
    return {"receipt": receipt, "proved": proved.body} if proved.is_ok else None


ROUTES = [
    Route(PATH + "/{index}", experience, methods=["GET"]),
    Route(PATH + "/{index}/{deed}", do, methods=["POST"]),
]
