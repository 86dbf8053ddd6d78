"""The routes by which an agent says what became of its session."""

from http import HTTPStatus
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from governor.ids import SessionId
from memory_store.audit import Actor
from memory_store.errors import NotFoundError, StoreError
from memory_store.sessions import SessionView, session_id_for
from memory_store.store import Store
from runtime.failures import Fault, invalid, problem_for
from runtime.problem_response import response_of
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.identity import Caller
from tool_gateway.ports import Clock
from tool_gateway.telemetry import count_outcome


class _Outcome(BaseModel):
    """How a session went."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    success: Annotated[bool, Field(strict=True)]


class SessionFront:
    """Serves an agent's own sessions; authentication is done before a request gets here."""

    def __init__(self, store: Store, *, clock: Clock) -> None:
        """Take the store that keeps the outcomes."""
        self._store = store
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the routes for the agents' application."""
        # A path, because an agent may have a slash in its name for a session.
        return [Route("/sessions/v1/{session:path}/outcome", self._outcome, methods=["POST"])]

    async def _outcome(self, request: Request) -> Response:
        caller: Caller = request.scope[CALLER_KEY]
        path = request.scope["path"]
        try:
            asked = _Outcome.model_validate_json(await request.body())
        except ValidationError as error:
            faults = error.errors(include_input=False)
            told = (
                Fault(field=".".join(map(str, fault["loc"])) or "body", detail=fault["msg"])
                for fault in faults
            )
            return response_of(invalid(*told), path=path)
        try:
            session = await self._session_of(caller, request.path_params["session"])
            view = await self._store.turns.set_outcome(
                session.session_id,
                is_solved=asked.success,
                by=Actor(name=caller.agent),
                now_ms=self._clock.now_ms(),
            )
        except StoreError as error:
            return response_of(problem_for(error), path=path)
        count_outcome(is_success=asked.success)
        return JSONResponse(
            {
                "session": session.session_id,
                "success": view.is_solved,
                "turns_used": view.used,
            },
            status_code=HTTPStatus.OK,
        )

    async def _session_of(self, caller: Caller, named: str) -> SessionView:
        """Return the caller's session of that name or id; another agent's is not there.

        Raises:
            NotFoundError: the caller has no such session.
        """
        for session_id in (session_id_for(caller.agent, named), SessionId(named)):
            try:
                session = await self._store.sessions.get(session_id)
            except NotFoundError:
                continue
            if session.agent == caller.agent:
                return session
        raise NotFoundError(f"you have no session {named}")
