"""Requests for what upstreams offer besides tools, on the path that every call takes.

A resource that is read and a prompt that is got are calls: rules and budgets cover them, a frozen
session has none, and what they show is marked. Completing an argument, and asking how a task goes
on, is free unless a rule that names it has a price.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from governor.amounts import NOTHING, Unit
from governor.call import CallStatus, Isolated, ToolCall
from governor.flow.labels import Label, Role, Traits
from governor.ids import CallId, ToolName
from governor.limits import ExecutionLimits
from governor.policy import COMPLETE, GET_PROMPT, READ_RESOURCE, TASK_METHODS
from governor.scope import ScopeChain
from governor.usage import Usage
from tool_gateway.catalog import SEPARATOR, ToolEntry
from tool_gateway.errors import (
    OfferDeniedError,
    UpstreamError,
    UpstreamFailedError,
    UpstreamSaidError,
)
from tool_gateway.exchange import PATIENCE_MS_MAX, Exchange
from tool_gateway.identity import CallContext, Caller
from tool_gateway.job import Served
from tool_gateway.pipeline import Pipeline
from tool_gateway.ports import Backend, Clock, Meter
from tool_gateway.relays import Relay
from tool_gateway.results import DENIAL_META, OUR_META, Json, Outcome, ToolResult
from tool_gateway.sessions import ImplicitSessions

SessionOf = Callable[[Caller, CallContext], Awaitable[tuple[str, ScopeChain]]]

_SHOWN = frozenset({Label.READS_PRIVATE, Label.SEES_UNTRUSTED})
_WHY = dict.fromkeys(_SHOWN, "it shows whatever its server keeps")
_OF_A_SERVER = Traits(labels=_SHOWN, why=_WHY)
_OF_ANY_URI = Traits(
    labels=_SHOWN | {Label.CAN_SEND_OUT},
    why={**_WHY, Label.CAN_SEND_OUT: "a URI that was not listed can carry something out"},
    roles={"uri": Role.TARGET},
)
GET_TASK, TASK_RESULT, UPDATE_TASK, CANCEL_TASK = TASK_METHODS
_ABOUT = {
    READ_RESOURCE: "Reads a resource.",
    GET_PROMPT: "Gets a prompt.",
    COMPLETE: "Completes an argument of a prompt or a template.",
    GET_TASK: "Tells how a task goes on.",
    TASK_RESULT: "Gets the result of a task.",
    UPDATE_TASK: "Answers what a task asks for.",
    CANCEL_TASK: "Cancels a task.",
}
_ACTING = frozenset({UPDATE_TASK, CANCEL_TASK})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request: its method, its parameters as its upstream wants them, and whose it is.

    `is_listed` tells that its server has listed just this; `known` is an earlier answer that
    its server lets be given again. `tool` is the one whose call a task goes on with.
    """

    method: str
    params: Json
    relay: Relay
    is_listed: bool = True
    known: Json | None = None
    tool: ToolEntry | None = None


def name_of(relay: Relay, method: str) -> ToolName:
    """Return the name that rules, budgets and records have for a method of an upstream.

    The stroke in it keeps every tool from the name.
    """
    return ToolName(f"{relay.name}{SEPARATOR}{method}" if relay.is_prefixed else method)


class OfferCalls:
    """Runs requests for what is offered besides tools as calls."""

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        session_of: SessionOf,
        sessions: ImplicitSessions,
        clock: Clock,
    ) -> None:
        """Take the path; `session_of` tells to which session a request is charged."""
        self._pipeline = pipeline
        self._session_of = session_of
        self._sessions = sessions
        self._clock = clock

    async def run(
        self, caller: Caller, context: CallContext, asked: Asked, exchange: Exchange
    ) -> tuple[Json, Json]:
        """Return the upstream's answer, and what the governor says about the call for `_meta`.

        An idempotency key is not looked at: who reads again wants to know what stands there now.

        Raises:
            OfferDeniedError: the policy or a budget refuses it.
            UpstreamError: its upstream did not answer.
        """
        session_name, chain = await self._session_of(caller, context)
        backend = _Asking(asked, exchange)
        call = ToolCall(
            call_id=CallId(self._clock.fresh("call")),
            tool=name_of(asked.relay, asked.method),
            arguments=asked.params,
            chain=chain,
            turn=context.turn,
            task_class=context.task_class,
            urgency=context.urgency,
            is_read_only=context.is_read_only,
        )
        result = await self._pipeline.run(
            call,
            session_name=session_name,
            entry=_entry_of(asked, call.tool),
            backend=backend,
            patience_ms=PATIENCE_MS_MAX if exchange.wishes.can_be_asked else 0,
            served=_served(asked.known, call),
            answers_for=None if asked.tool is None else asked.tool.exposed,
        )
        denial = result.meta.get(DENIAL_META)
        if isinstance(denial, Mapping):
            raise OfferDeniedError(denial)
        if context.session_name is None:
            self._sessions.touch(caller.token_id)
        if backend.error is not None:
            raise _as_told(backend.error, result)
        if result.is_error:
            # Somebody stopped it meanwhile, and the words say who.
            raise UpstreamFailedError(result.sole_text)
        answer = result.structured
        assert isinstance(answer, Mapping), "only an answer is no error"
        return answer, {k: v for k, v in result.meta.items() if k.startswith(OUR_META)}


class _Asking:
    """The backend of one request; it keeps the error that the path tells in words."""

    def __init__(self, asked: Asked, exchange: Exchange) -> None:
        self._asked = asked
        self._exchange = exchange
        self._tools: Backend = asked.relay.backend_for(exchange)
        self.error: UpstreamError | None = None

    @property
    def name(self) -> str:
        """Return the upstream's name."""
        return self._tools.name

    @property
    def unmeasurable(self) -> Mapping[Unit, str]:
        """Return what cannot be measured of the upstream's calls, whatever they ask."""
        return self._tools.unmeasurable

    def isolation_for(self, call: ToolCall, limits: ExecutionLimits) -> Isolated | None:
        """Return what stands around the upstream."""
        return self._tools.isolation_for(call, limits)

    async def run(self, call: ToolCall, limits: ExecutionLimits, meter: Meter) -> Outcome:
        """Ask the upstream.

        Raises:
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: it failed, or answered with an error.
        """
        try:
            answer = await self._asked.relay.request(
                self._asked.method,
                self._asked.params,
                self._exchange,
                wall_ms=limits.wall_ms,
                meter=meter,
            )
        except UpstreamError as error:
            self.error = error
            raise
        usage = Usage(measured=NOTHING) if meter.usage is None else meter.usage
        return Outcome(result=_result_of(answer), status=CallStatus.OK, usage=usage)


def _result_of(answer: Json) -> ToolResult:
    # What is no outcome yet says so where the path looks for it.
    kind = {"resultType": answer["resultType"]} if "resultType" in answer else {}
    return ToolResult(content=(), structured=answer, extra=kind)


def _as_told(error: UpstreamError, result: ToolResult) -> UpstreamError:
    """Return an upstream's error in the words that the path left of it."""
    fault = result.fault
    if fault is not None:
        return UpstreamSaidError(fault.words, code=fault.code, words=fault.words, data=fault.data)
    # What it said is gone where somebody stopped the call meanwhile.
    kind = UpstreamFailedError if isinstance(error, UpstreamSaidError) else type(error)
    return kind(result.sole_text)


def _served(known: Json | None, call: ToolCall) -> Served | None:
    if known is None:
        return None
    return Served(answer=call.call_id, turn=call.turn, result=_result_of(known))


def _entry_of(asked: Asked, name: ToolName) -> ToolEntry:
    """Return the request as the path knows tools; its answer stays whole."""
    traits = _OF_A_SERVER if asked.is_listed else _OF_ANY_URI
    return ToolEntry(
        exposed=name,
        original=asked.method,
        backend=asked.relay.name,
        definition={
            "name": asked.method,
            "description": _ABOUT[asked.method],
            "annotations": {"readOnlyHint": asked.method not in _ACTING},
            "outputSchema": {"type": "object"},
        },
        is_bounded=True,
        is_approved=True,  # the protocol's own word, not the server's
        traits=Traits(labels=frozenset()) if asked.method == COMPLETE else traits,
    )
