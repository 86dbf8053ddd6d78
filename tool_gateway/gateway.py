"""The gateway's use cases: list the tools that a caller may use, call one of them."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from governor.call import Idempotency, ToolCall
from governor.ids import CallId, ToolName, UpstreamName
from governor.scope import ScopeChain
from tool_gateway.books import Books
from tool_gateway.catalog import ToolEntry
from tool_gateway.discovery import definitions as discovery
from tool_gateway.discovery.finder import Finder
from tool_gateway.errors import UnknownToolError
from tool_gateway.identity import CallContext, Caller
from tool_gateway.pipeline import Pipeline
from tool_gateway.ports import Backend, Clock, PolicySource, SessionNaming
from tool_gateway.redaction import payload_hash
from tool_gateway.results import BUDGET_META, DENIAL_META, ToolResult, text_result
from tool_gateway.sessions import ImplicitSessions
from tool_gateway.stock import Stock


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A tool that a caller may use, and whether clients may see its output schema."""

    entry: ToolEntry
    with_output_schema: bool


class Gateway:
    """What the protocol fronts offer, free of any protocol."""

    def __init__(
        self,
        *,
        stock: Stock,
        pipeline: Pipeline,
        books: Books,
        backends: Mapping[UpstreamName, Backend],
        policy: PolicySource,
        sessions: ImplicitSessions,
        session_naming: SessionNaming,
        clock: Clock,
        finder: Finder,
    ) -> None:
        """Take the parts; nothing is started."""
        self._finder = finder
        self._stock = stock
        self._pipeline = pipeline
        self._books = books
        self._backends = backends
        self._policy = policy
        self._sessions = sessions
        self._session_naming = session_naming
        self._clock = clock

    def tools_for(self, caller: Caller) -> tuple[Listed, ...]:
        """Return the tools that the policy allows to `caller`, in a stable order."""
        policy = self._policy()
        listed = []
        for entry in self._stock.catalog:
            rule = policy.rule_for(tool=entry.exposed, tenant=caller.tenant, agent=caller.agent)
            if rule.allow:
                listed.append(Listed(entry=entry, with_output_schema=not rule.drop_output_schema))
        return tuple(listed)

    async def listed_for(self, caller: Caller, context: CallContext) -> tuple[Listed, ...]:
        """Return the tools that `caller` is shown: all, or what the policy's list has room for."""
        whole = self.tools_for(caller)
        _, chain = self.session_of(caller, context)
        names = await self._finder.listed(
            chain, [(listed.entry, listed.with_output_schema) for listed in whole]
        )
        return whole if names is None else tuple(at for at in whole if at.entry.exposed in names)

    def session_of(self, caller: Caller, context: CallContext) -> tuple[str, ScopeChain]:
        """Return the name of the request's session and the chain that it is charged to."""
        name = context.session_name or self._sessions.name_for(caller.token_id)
        chain = ScopeChain(
            tenant=caller.tenant,
            agent=caller.agent,
            session=self._session_naming(caller.agent, name),
        )
        return name, chain

    def session_of_chat(self, caller: Caller, context: CallContext) -> tuple[str, ScopeChain]:
        """Return the session of a chat, which keeps an unnamed one awake by asking."""
        found = self.session_of(caller, context)
        if context.session_name is None:
            self._sessions.touch(caller.token_id)
        return found

    async def call(
        self, caller: Caller, context: CallContext, *, tool: str, arguments: Mapping[str, object]
    ) -> ToolResult:
        """Run one governed call; what the tool or the governor refuses is a result too.

        Raises:
            UnknownToolError: no such tool is exposed.
            IdempotencyConflictError: the key was used before with another payload.
        """
        if tool == discovery.CALL and self._may(caller, discovery.CALL):
            return await self._call_found(caller, context, arguments)
        entry = self._stock.catalog.find(tool)
        backend = self._backends.get(entry.backend)
        if backend is None:
            message = f"{tool} has no backend; it is switched off"
            raise UnknownToolError(message)
        session_name, chain = self.session_of(caller, context)
        problem = _unsendable(arguments) or self._stock.schemas.problem_with(
            entry.exposed, arguments
        )
        if problem is not None:
            return await self._refused(chain, f"{tool} was not called: {problem}")
        key = context.idempotency_key
        call = ToolCall(
            call_id=CallId(self._clock.fresh("call")),
            tool=entry.exposed,
            arguments=arguments,
            chain=chain,
            turn=context.turn,
            idempotency=None
            if key is None
            else Idempotency(key=key, payload_hash=payload_hash(tool, arguments)),
            task_class=context.task_class,
            urgency=context.urgency,
        )
        result = await self._pipeline.run(
            call, session_name=session_name, entry=entry, backend=backend
        )
        # A session that only meets denials goes idle: one that was killed must be able to end.
        if context.session_name is None and DENIAL_META not in result.meta:
            self._sessions.touch(caller.token_id)
        is_ok = not result.is_error and DENIAL_META not in result.meta
        self._finder.note_call(chain, tool=entry.exposed, arguments=arguments, is_ok=is_ok)
        return result

    async def _call_found(
        self, caller: Caller, context: CallContext, asked: Mapping[str, object]
    ) -> ToolResult:
        """Call the tool that `tools_call` names, exactly as if it had been called by itself.

        Its name is a model's argument here, so that a wrong one is a result for the model.

        Raises:
            IdempotencyConflictError: the key was used before with another payload.
        """
        problem = _unsendable(asked) or self._stock.schemas.problem_with(discovery.CALL, asked)
        if problem is None and asked["name"] == discovery.CALL:
            problem = "it cannot call itself"
        if problem is None:
            name, arguments = str(asked["name"]), asked.get("arguments", {})
            assert isinstance(arguments, Mapping), "the schema says so"
            try:
                return await self.call(caller, context, tool=name, arguments=arguments)
            except UnknownToolError as error:
                problem = f"{error}; {discovery.SEARCH} finds tools"
        _, chain = self.session_of(caller, context)
        return await self._refused(chain, f"{discovery.CALL} called nothing: {problem}")

    def _may(self, caller: Caller, tool: ToolName) -> bool:
        return self._policy().rule_for(tool=tool, tenant=caller.tenant, agent=caller.agent).allow

    async def _refused(self, chain: ScopeChain, text: str) -> ToolResult:
        refused = text_result(text, is_error=True)
        return refused.with_meta(**{BUDGET_META: await self._books.standing(chain)})


def _unsendable(arguments: Mapping[str, object]) -> str | None:
    """Return why the arguments cannot be sent or stored as text, None if they can.

    JSON can escape half of a surrogate pair, which no UTF-8 text can hold.
    """
    try:
        json.dumps(arguments, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "arguments: a string holds half of a surrogate pair, which is not text"
    return None
