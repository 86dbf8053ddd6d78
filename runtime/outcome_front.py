"""The route by which an agent says what an answer was worth."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from governor.ids import CallId
from governor.learning.verdict import Source
from memory_store.errors import StoreError
from memory_store.sessions import session_id_for
from runtime.failures import problem_for
from runtime.naming import OUTCOMES
from runtime.problem_response import response_of
from runtime.read_only import changing
from runtime.request_faults import faulty_body
from runtime.router.feedback import Feedback, Report
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.identity import Caller
from tool_gateway.ports import PolicySource

_CALL_ID_CHARS_MAX = 200


class _Outcome(BaseModel):
    """What an answer was worth: 0 is useless, 1 as good as can be."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    call_id: Annotated[str, Field(min_length=1, max_length=_CALL_ID_CHARS_MAX)]
    score: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
    source: Source


class OutcomeFront:
    """Takes outcomes of an agent's own calls; authentication is done before."""

    def __init__(self, feedback: Feedback, *, policy: PolicySource) -> None:
        """Take who keeps them, and what says who may only read."""
        self._feedback = feedback
        self._policy = policy

    def routes(self) -> list[Route]:
        """Return the routes for the agents' application."""
        return [
            Route(OUTCOMES, changing(self._outcome, self._policy), methods=["POST"]),
        ]

    async def _outcome(self, request: Request) -> Response:
        """Answer 200 with what was taken, 404 where the caller has no such call."""
        caller: Caller = request.scope[CALLER_KEY]
        path = request.scope["path"]
        try:
            asked = _Outcome.model_validate_json(await request.body())
        except ValidationError as error:
            return response_of(faulty_body(error, _Outcome), path=path)
        said = Report(call_id=CallId(asked.call_id), score=asked.score, source=asked.source)
        within = None if caller.pin is None else session_id_for(caller.agent, caller.pin)
        try:
            await self._feedback.hear(said, tenant=caller.tenant, agent=caller.agent, within=within)
        except StoreError as error:
            return response_of(problem_for(error), path=path)
        return JSONResponse(
            {"call_id": said.call_id, "score": said.score, "source": said.source.value}
        )
