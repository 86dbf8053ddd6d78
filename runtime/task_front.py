"""The route by which a launcher says in the user's own words what a session is for."""

from http import HTTPStatus
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from governor.flow.wording import CHARS_MAX
from governor.ids import PrincipalId, SessionId, TaskClass, TenantId
from governor.scope import ScopeChain
from memory_store.errors import NotFoundError, StoreError
from memory_store.sessions import session_id_for
from memory_store.store import Store
from runtime.failures import INVALID_REQUEST, Problem, problem_for
from runtime.problem_response import response_of
from runtime.read_only import refused_change
from runtime.request_faults import faulty_body
from tool_gateway.errors import GatewayError
from tool_gateway.front.mcp_http import CALLER_KEY
from tool_gateway.guards.flow import FlowGuard
from tool_gateway.identity import NAME_LENGTH_MAX, Caller
from tool_gateway.ports import Clock, PolicySource

_NOT_A_LAUNCHER = Problem(
    status=HTTPStatus.FORBIDDEN,
    code=INVALID_REQUEST,
    title="Forbidden",
    detail="flow.launchers names who may say what a session is for, and you are not among them.",
)
_AN_AGENTS_KEY = Problem(
    status=HTTPStatus.FORBIDDEN,
    code=INVALID_REQUEST,
    title="Forbidden",
    detail="The key of a run is its agent's, and an agent does not say what its user wants.",
)
_TOO_LATE = Problem(
    status=HTTPStatus.CONFLICT,
    code=INVALID_REQUEST,
    title="Already said",
    detail=(
        "The session's task was said before, or it has already seen what others wrote; start a "
        "new session."
    ),
)


class _Task(BaseModel):
    """What a session is for; `agent` where a launcher starts it for somebody else."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: Annotated[str, Field(min_length=1, max_length=CHARS_MAX)]
    task_class: Annotated[str, Field(min_length=1, max_length=NAME_LENGTH_MAX)] | None = None
    agent: Annotated[str, Field(min_length=1, max_length=NAME_LENGTH_MAX)] | None = None


class TaskFront:
    """Takes the user's words for flow rules, once per session and before it has read anything.

    With `launchers` only those principals are believed, for any agent of their tenant. Without,
    whoever holds the agent's token is: the harness, as the model has not been told anything yet.
    The key that an agent itself was given for one session is never believed.
    """

    def __init__(
        self,
        flow: FlowGuard,
        store: Store,
        *,
        launchers: tuple[str, ...],
        clock: Clock,
        policy: PolicySource,
    ) -> None:
        """Take who keeps the words, and what says who may only read."""
        self._policy = policy
        self._flow = flow
        self._store = store
        self._launchers = frozenset(launchers)
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the routes for the agents' application."""
        return [Route("/sessions/v1/{session:path}/task", self._task, methods=["POST"])]

    async def _task(self, request: Request) -> Response:
        """Answer 201 with what was kept, 409 where it is too late."""
        caller: Caller = request.scope[CALLER_KEY]
        path = request.scope["path"]
        try:
            asked = _Task.model_validate_json(await request.body())
        except ValidationError as error:
            return response_of(faulty_body(error, _Task), path=path)
        agent = caller.agent if asked.agent is None else PrincipalId(asked.agent)
        refused = self._refused(caller, agent)
        if refused is not None:
            return response_of(refused, path=path)
        try:
            session = await self._session(agent, caller.tenant, request.path_params["session"])
            chain = ScopeChain(tenant=caller.tenant, agent=agent, session=session)
            said = await self._flow.hear(
                chain,
                asked.task,
                words_from=f"task by {caller.agent}",
                task_class=None if asked.task_class is None else TaskClass(asked.task_class),
            )
        except (StoreError, GatewayError) as error:
            return response_of(problem_for(error), path=path)
        if not said:
            return response_of(_TOO_LATE, path=path)
        return JSONResponse(
            {"session": session, "agent": agent, "task_class": asked.task_class},
            status_code=HTTPStatus.CREATED,
        )

    def _refused(self, caller: Caller, agent: PrincipalId) -> Problem | None:
        """Return why a caller is not believed about a session of `agent`, None if it is."""
        if caller.pin is not None:
            return _AN_AGENTS_KEY
        is_launcher = caller.agent in self._launchers
        if not is_launcher and (self._launchers or agent != caller.agent):
            return _NOT_A_LAUNCHER
        # What one's own session is for gives whoever may only read nothing to change.
        return None if agent == caller.agent else refused_change(caller, self._policy())

    async def _session(self, agent: PrincipalId, tenant: TenantId, named: str) -> SessionId:
        """Return the id of an agent's session of that name, which may not have begun yet.

        Raises:
            NotFoundError: there is no such agent in the launcher's tenant.
        """
        principal = await self._store.principals.get(agent)
        if principal.tenant != tenant:
            raise NotFoundError(f"there is no agent {agent}")
        try:
            known = await self._store.sessions.get(SessionId(named))
        except NotFoundError:
            return session_id_for(agent, named)
        return known.session_id if known.agent == agent else session_id_for(agent, named)
