"""The routes by which an agent divides its sessions and says what became of them."""

from http import HTTPStatus
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from governor.amounts import AMOUNT_MAX, Amounts, Unit
from governor.denial import Denied
from governor.errors import GovernorError
from governor.ids import SessionId
from memory_store.audit import Actor
from memory_store.errors import StoreError
from memory_store.sessions import SessionView, session_id_for
from memory_store.store import Store
from runtime.adapters import balance_json
from runtime.failures import problem_for
from runtime.model_gateway.answers import denial_answer
from runtime.model_gateway.wires.openai_chat import OpenAIChat
from runtime.problem_response import response_of
from runtime.read_only import changing
from runtime.request_faults import faulty_body
from runtime.router.feedback import Feedback
from runtime.sub_sessions import SubSessions
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.identity import NAME_LENGTH_MAX, Caller
from tool_gateway.ports import Clock, PolicySource
from tool_gateway.telemetry import count_outcome

# What this front says of denials, clients of models read as well.
_WIRE = OpenAIChat()


def _printable(name: str) -> str:
    """Return a name that a header can carry."""
    if not name.isprintable():
        raise ValueError("should be printable")
    return name


class _Outcome(BaseModel):
    """How a session went."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    success: Annotated[bool, Field(strict=True)]


_Named = Annotated[str, Field(min_length=1, max_length=NAME_LENGTH_MAX), AfterValidator(_printable)]


class _Spawn(BaseModel):
    """A sub-session that is wanted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    parent: _Named
    name: _Named
    limits: Annotated[
        dict[Unit, Annotated[int, Field(strict=True, ge=0, le=AMOUNT_MAX)]], Field(min_length=1)
    ]


class SessionFront:
    """Serves an agent's own sessions; authentication is done before a request gets here."""

    def __init__(
        self, store: Store, *, clock: Clock, policy: PolicySource, feedback: Feedback
    ) -> None:
        """Take the store that keeps the outcomes, and what says who may only read.

        `feedback` learns from outcomes which tiers were right.
        """
        self._feedback = feedback
        self._policy = policy
        self._store = store
        self._clock = clock
        self._sessions = SubSessions(store, clock=clock)

    def routes(self) -> list[Route]:
        """Return the routes for the agents' application."""
        spawn, close, outcome = (
            changing(endpoint, self._policy)
            for endpoint in (self._spawn, self._close, self._outcome)
        )
        # A path, because an agent may have a slash in its name for a session.
        return [
            Route("/sessions/v1/{session:path}/outcome", outcome, methods=["POST"]),
            Route("/sessions/v1", spawn, methods=["POST"]),
            Route("/sessions/v1/{session:path}", self._read, methods=["GET"]),
            Route("/sessions/v1/{session:path}", close, methods=["DELETE"]),
        ]

    async def _spawn(self, request: Request) -> Response:
        """Answer 201 with the sub-session, 429 with the denial."""
        caller: Caller = request.scope[CALLER_KEY]
        path = request.scope["path"]
        try:
            asked = _Spawn.model_validate_json(await request.body())
        except ValidationError as error:
            return response_of(faulty_body(error, _Spawn), path=path)
        try:
            chain = await self._sessions.spawn(
                tenant=caller.tenant,
                agent=caller.agent,
                parent=asked.parent,
                name=asked.name,
                limits=Amounts(asked.limits),
                within=_within(caller),
            )
        except (StoreError, GovernorError) as error:
            return response_of(problem_for(error), path=path)
        if isinstance(chain, Denied):
            denied = denial_answer(_WIRE, chain)
            return Response(
                denied.encoded(),
                status_code=denied.status,
                headers=dict(denied.headers),
                media_type="application/json",
            )
        return JSONResponse(
            {
                "id": chain.session,
                "name": asked.name,
                "chain": [{"kind": scope.kind.value, "subject": scope.subject} for scope in chain],
                "limits": Amounts(asked.limits).as_dict(),
            },
            status_code=HTTPStatus.CREATED,
        )

    async def _read(self, request: Request) -> Response:
        """Answer with the session, and how everything stands that its calls are charged to."""
        caller: Caller = request.scope[CALLER_KEY]
        try:
            session = await self._find(caller, request)
            views = await self._sessions.balances(session)
        except StoreError as error:
            return response_of(problem_for(error), path=request.scope["path"])
        now_ms = self._clock.now_ms()
        balances = [balance_json(view, now_ms) for view in views]
        return JSONResponse({**_session_json(session), "balances": balances})

    async def _close(self, request: Request) -> Response:
        """Answer with the closed session and what came back."""
        caller: Caller = request.scope[CALLER_KEY]
        try:
            given = await self._sessions.close(
                caller.agent, request.path_params["session"], within=_within(caller)
            )
        except StoreError as error:
            return response_of(problem_for(error), path=request.scope["path"])
        back = Amounts(given.given_back).as_dict()
        return JSONResponse({**_session_json(given.session), "given_back": back})

    async def _find(self, caller: Caller, request: Request) -> SessionView:
        named = request.path_params["session"]
        return await self._sessions.find(caller.agent, named, within=_within(caller))

    async def _outcome(self, request: Request) -> Response:
        caller: Caller = request.scope[CALLER_KEY]
        path = request.scope["path"]
        try:
            asked = _Outcome.model_validate_json(await request.body())
        except ValidationError as error:
            return response_of(faulty_body(error, _Outcome), path=path)
        try:
            session = await self._find(caller, request)
            view = await self._store.turns.set_outcome(
                session.session_id,
                is_solved=asked.success,
                by=Actor(name=caller.agent),
                now_ms=self._clock.now_ms(),
            )
        except StoreError as error:
            return response_of(problem_for(error), path=path)
        count_outcome(is_success=asked.success)
        await self._feedback.session_ended(
            session.session_id,
            is_success=asked.success,
            reporter=self._feedback.reporter_of(caller.agent, is_pinned=caller.pin is not None),
            by=caller.agent,
        )
        return JSONResponse(
            {
                "session": session.session_id,
                "success": view.is_solved,
                "turns_used": view.used,
            },
            status_code=HTTPStatus.OK,
        )


def _within(caller: Caller) -> SessionId | None:
    """Return the session that the caller's key is good for, None if it is for all."""
    return None if caller.pin is None else session_id_for(caller.agent, caller.pin)


def _session_json(session: SessionView) -> dict[str, object]:
    return {
        "id": session.session_id,
        "name": session.name,
        "parent": session.parent,
        "limits": None if session.carve is None else session.carve.as_dict(),
        "opened_at_ms": session.opened_at_ms,
        "closed_at_ms": session.closed_at_ms,
        "frozen_at_ms": session.frozen_at_ms,
    }
