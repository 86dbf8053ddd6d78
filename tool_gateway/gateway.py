"""The gateway's use cases: list the tools that a caller may use, call one of them."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from governor.access import Offer
from governor.call import Idempotency, ToolCall
from governor.fairness.claim import Urgency
from governor.ids import CallId, ToolName, UpstreamName
from governor.intents import Intent
from governor.scope import ScopeChain
from governor.target import CallKind
from tool_gateway.absence import awaited, record_of_absence
from tool_gateway.access import is_open, open_rule
from tool_gateway.books import Books
from tool_gateway.catalog import SEPARATOR, ToolEntry, can_be_exposed
from tool_gateway.declared import intent_in_arguments
from tool_gateway.denials import denial_result, upstream_unavailable
from tool_gateway.discovery import definitions as discovery
from tool_gateway.discovery.finder import Finder
from tool_gateway.errors import InvalidContextError, UnknownSessionError, UnknownToolError
from tool_gateway.exchange import NOBODY, PATIENCE_MS_MAX, Exchange
from tool_gateway.identity import CallContext, Caller
from tool_gateway.known_tasks import KnownTasks
from tool_gateway.memory.requests import shows_experiences
from tool_gateway.offer_calls import OfferCalls
from tool_gateway.outcomes import Edition, Outcomes
from tool_gateway.pipeline import Pipeline
from tool_gateway.ports import Backend, Clock, PolicySource, SessionLineage, SessionNaming
from tool_gateway.redaction import payload_hash
from tool_gateway.relays import Presence, PresenceState, Relay
from tool_gateway.results import BUDGET_META, CALL_META, DENIAL_META, Json, ToolResult, text_result
from tool_gateway.sessions import ImplicitSessions
from tool_gateway.shell import LOCAL, problem_in_words
from tool_gateway.stock import Stock

# About as long as an upstream takes that is started again.
NOT_THERE_RETRY_MS = 5_000
# Which tools are offered and wait for an approval: the entry of an exposed name, if it does.
KeptOut = Callable[[str], ToolEntry | None]
_text_of = json.JSONEncoder(ensure_ascii=False).encode


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
        relays: Mapping[UpstreamName, Relay] | None = None,
        outcomes: Outcomes | None = None,
        policy: PolicySource,
        sessions: ImplicitSessions,
        session_naming: SessionNaming,
        is_beneath: SessionLineage | None = None,
        clock: Clock,
        finder: Finder,
        kept_out: KeptOut = lambda _: None,
        memory_is_asked_for: Callable[[], bool] = lambda: False,
    ) -> None:
        """Take the parts; nothing is started.

        Calls of the `relays` can reach back to the client that made them; `backends` run the
        others. `is_beneath` knows which sessions were carved out of which; without it none was.
        `kept_out` knows the tools that wait for an approval. `memory_is_asked_for` tells
        whether clients are asked about local commands that are out of memory.
        """
        self._kept_out = kept_out
        self._memory_is_asked_for = memory_is_asked_for
        self.tasks = KnownTasks()
        self._finder = finder
        self._stock = stock
        self._pipeline = pipeline
        self._books = books
        self._backends = backends
        # An empty mapping may fill: it is a view of what is configured now.
        self._relays = {} if relays is None else relays
        self._outcomes = outcomes or Outcomes(self._relays)
        self._policy = policy
        self._sessions = sessions
        self._session_naming = session_naming
        self._is_beneath = is_beneath
        self._clock = clock

    def tools_for(self, caller: Caller, *, is_read_only: bool = False) -> tuple[Listed, ...]:
        """Return the tools that the policy allows to `caller`, in a stable order."""
        policy = self._policy()
        listed = []
        for entry in self._stock.catalog:
            rule = open_rule(
                entry,
                policy=policy,
                tenant=caller.tenant,
                agent=caller.agent,
                is_read_only=is_read_only,
            )
            if rule is not None:
                listed.append(Listed(entry=entry, with_output_schema=not rule.drop_output_schema))
        return tuple(listed)

    async def listed_for(self, caller: Caller, context: CallContext) -> tuple[Listed, ...]:
        """Return the tools that `caller` is shown: all, or what the policy's list has room for."""
        whole = self.tools_for(caller, is_read_only=context.is_read_only)
        _, chain = await self.session_of(caller, context)
        names = await self._finder.listed(
            chain, [(listed.entry, listed.with_output_schema) for listed in whole]
        )
        return whole if names is None else tuple(at for at in whole if at.entry.exposed in names)

    def offers(self, caller: Caller, tool: str) -> bool:
        """Tell whether the policy lets `caller` have a tool, and there is one."""
        try:
            entry = self._stock.catalog.find(tool)
        except UnknownToolError:
            return False
        return is_open(
            entry,
            policy=self._policy(),
            tenant=caller.tenant,
            agent=caller.agent,
            is_read_only=caller.is_read_only,
        )

    def outcome_of(self, caller: Caller, listed: Iterable[Listed]) -> Json | None:
        """Return how each upstream is, to stand beside a list of tools; None says nothing."""
        return self._outcomes.of_tools(
            (each.entry.backend for each in listed),
            may_see=lambda relay: self._may_name(
                caller, f"{relay.name}{SEPARATOR}" if relay.is_prefixed else ""
            ),
        )

    def schema_of(self, tool: str) -> Mapping[str, object] | None:
        """Return the schema of an exposed tool's arguments, None if there is no such tool."""
        try:
            return self._stock.catalog.find(tool).input_schema
        except UnknownToolError:
            return None

    def upstream_of(self, tool: str) -> UpstreamName | None:
        """Return which upstream runs an exposed tool, None if none does."""
        try:
            return self._stock.catalog.find(tool).backend
        except UnknownToolError:
            return None

    @property
    def shows_builtins(self) -> bool:
        """Tell whether the built-in tools are offered."""
        return self._stock.has_builtins

    def can_ask(self, tool: str) -> bool:
        """Tell whether whoever runs a tool may ask the client something in the middle of a call.

        A server of the era without sessions asks in its answer, which is handed on as it is.
        """
        owner = self.upstream_of(tool)
        if owner == LOCAL:
            return self._memory_is_asked_for()
        relay = None if owner is None else self._relays.get(owner)
        return relay is not None and (relay.face is None or relay.face.has_sessions)

    @property
    def edition(self) -> tuple[object, object, Edition]:
        """Return what a list of tools depends on besides the caller.

        The first two are others after each change; the last differs where reports do.
        """
        return self._stock.catalog, self._policy(), self._outcomes.edition

    def shows_all(self, caller: Caller) -> bool:
        """Tell whether `caller` is shown all tools that it may use, whatever its session."""
        return not self._finder.cuts(caller.tenant, caller.agent)

    async def session_of(self, caller: Caller, context: CallContext) -> tuple[str, ScopeChain]:
        """Return the name of the request's session and the chain that it is charged to.

        Raises:
            UnknownSessionError: it names one that its caller's token is not good for.
            LedgerUnavailableError: nobody can say which it is.
        """
        pin = caller.pin
        name = context.session_name or pin or self._sessions.name_for(caller.token_id)
        session = self._session_naming(caller.agent, name)
        if pin is not None and name != pin:
            own = self._session_naming(caller.agent, pin)
            if self._is_beneath is None or not await self._is_beneath(session, above=own):
                raise UnknownSessionError
        return name, ScopeChain(tenant=caller.tenant, agent=caller.agent, session=session)

    def offer_calls(self) -> OfferCalls:
        """Return what runs requests for what is offered besides tools, on the same path."""
        return OfferCalls(
            pipeline=self._pipeline,
            session_of=self.session_of,
            sessions=self._sessions,
            clock=self._clock,
        )

    async def session_of_chat(self, caller: Caller, context: CallContext) -> tuple[str, ScopeChain]:
        """Return the session of a chat, which keeps an unnamed one awake by asking.

        Raises:
            UnknownSessionError: it names one that its caller's token is not good for.
            LedgerUnavailableError: nobody can say which it is.
        """
        found = await self.session_of(caller, context)
        if context.session_name is None:
            self._sessions.touch(caller.token_id)
        return found

    async def call(
        self,
        caller: Caller,
        context: CallContext,
        *,
        tool: str,
        arguments: Mapping[str, object],
        exchange: Exchange = NOBODY,
    ) -> ToolResult:
        """Run one governed call; what the tool or the governor refuses is a result too.

        Raises:
            UnknownToolError: no such tool is exposed.
            UnknownSessionError: the caller's token is not good for the session that it names.
            IdempotencyConflictError: the key was used before with another payload.
        """
        if tool == discovery.CALL and self._may_call_found(caller, context):
            return await self._call_found(caller, context, arguments, exchange)
        if tool not in self._stock.catalog and (missing := await self._missing(caller, tool)):
            return await self._not_there(caller, context, missing, tool=tool, arguments=arguments)
        entry = self._entry_of(tool)
        backend = self._backend_of(entry, exchange)
        session_name, chain = await self.session_of(caller, context)
        size_bytes, problem = _sent_size(arguments)
        if entry.backend == LOCAL:
            problem = problem or problem_in_words(entry.exposed, arguments)
        problem = problem or self._stock.schemas.problem_with(entry.exposed, arguments)
        # Of a tool that is not the caller's not even its arguments are talked about.
        if problem is not None and self._is_open(entry, caller, context):
            return await self._refused(chain, f"{tool} was not called: {problem}")
        intent = context.intent
        if entry.backend == LOCAL:
            try:
                intent = intent_in_arguments(arguments).over(intent)
            except InvalidContextError as error:
                return await self._refused(chain, f"{tool} was not called: {error}")
        # What shows experiences reads anew each time: an answer kept for a retry would show what
        # was erased meanwhile.
        key = None if shows_experiences(tool, arguments) else _key_of(context, exchange)
        call = ToolCall(
            call_id=CallId(self._clock.fresh("call")),
            tool=entry.exposed,
            arguments=arguments,
            chain=chain,
            turn=context.turn,
            idempotency=None if key is None else _idempotency(key, tool, arguments),
            task_class=context.task_class,
            urgency=_urgency_of(context, intent),
            intent=intent,
            is_read_only=context.is_read_only,
            takes_bytes=context.takes_bytes,
        )
        result = await self._pipeline.run(
            call,
            session_name=session_name,
            entry=entry,
            backend=backend,
            patience_ms=self._patience_ms(entry, exchange),
            is_retry=bool(exchange.wishes.extras),
            arguments_bytes=size_bytes,
            exchange=exchange,
        )
        self.tasks.note(chain, result, entry)
        # A session that only meets denials goes idle: one that was killed must be able to end.
        if context.session_name is None and DENIAL_META not in result.meta:
            self._sessions.touch(caller.token_id)
        is_ok = not result.is_error and DENIAL_META not in result.meta
        self._finder.note_call(chain, tool=entry.exposed, arguments=arguments, is_ok=is_ok)
        return result

    def _entry_of(self, tool: str) -> ToolEntry:
        """Return a tool that is exposed, or one that is offered and kept out.

        Raises:
            UnknownToolError: there is neither.
        """
        try:
            return self._stock.catalog.find(tool)
        except UnknownToolError:
            entry = self._kept_out(tool)
            if entry is None:
                raise
            return entry

    def _is_open(self, entry: ToolEntry, caller: Caller, context: CallContext) -> bool:
        return is_open(
            entry,
            policy=self._policy(),
            tenant=caller.tenant,
            agent=caller.agent,
            is_read_only=context.is_read_only,
        )

    def _patience_ms(self, entry: ToolEntry, exchange: Exchange) -> int:
        """Return how long the hold outlives the run, for questions to the client."""
        is_asking = entry.backend in self._relays or (
            entry.backend == LOCAL and self._memory_is_asked_for()
        )
        can_ask = is_asking and exchange.wishes.can_be_asked
        return PATIENCE_MS_MAX if can_ask else 0

    def _backend_of(self, entry: ToolEntry, exchange: Exchange) -> Backend:
        relay = self._relays.get(entry.backend)
        if relay is not None:
            return relay.backend_for(exchange)
        backend = self._backends.get(entry.backend)
        if backend is None:
            message = f"{entry.exposed} has no backend; it is switched off"
            raise UnknownToolError(message)
        return backend

    async def _call_found(
        self,
        caller: Caller,
        context: CallContext,
        asked: Mapping[str, object],
        exchange: Exchange,
    ) -> ToolResult:
        """Call the tool that `tools_call` names, exactly as if it had been called by itself.

        Its name is a model's argument here, so that a wrong one is a result for the model.

        Raises:
            IdempotencyConflictError: the key was used before with another payload.
        """
        problem = _sent_size(asked)[1] or self._stock.schemas.problem_with(discovery.CALL, asked)
        if problem is None and asked["name"] == discovery.CALL:
            problem = "it cannot call itself"
        if problem is None:
            name, arguments = str(asked["name"]), asked.get("arguments", {})
            assert isinstance(arguments, Mapping), "the schema says so"
            try:
                return await self.call(
                    caller, context, tool=name, arguments=arguments, exchange=exchange
                )
            except UnknownToolError as error:
                problem = f"{error}; {discovery.SEARCH} finds tools"
        _, chain = await self.session_of(caller, context)
        return await self._refused(chain, f"{discovery.CALL} called nothing: {problem}")

    async def _missing(self, caller: Caller, tool: str) -> tuple[Relay, Presence] | None:
        """Return the upstream that a tool may be of and that is not there, if that is why.

        One that is starting is waited for: its first call should not meet a denial.
        """
        missing = self._outcomes.missing(tool)
        if (
            missing is None
            or missing[1].state is not PresenceState.STARTING
            or not can_be_exposed(tool)
            or not self._may_name(caller, tool)
        ):
            return missing
        relay, _ = missing

        def is_told() -> bool:
            catalog = self._stock.catalog
            return self._kept_out(tool) is not None or any(
                entry.backend == relay.name for entry in catalog
            )

        await awaited(relay, is_told)
        return None if tool in self._stock.catalog else self._outcomes.missing(tool)

    async def _not_there(
        self,
        caller: Caller,
        context: CallContext,
        missing: tuple[Relay, Presence],
        *,
        tool: str,
        arguments: Mapping[str, object],
    ) -> ToolResult:
        """Return why a tool that may well exist cannot be called, and keep a record of it.

        Raises:
            UnknownToolError: the caller may not use it, if it exists.
        """
        if not (can_be_exposed(tool) and self._may_name(caller, tool)):
            self._stock.catalog.find(tool)
        relay, presence = missing
        denied = upstream_unavailable(
            f"{tool} is not there: upstream {relay.name} is {presence.state} ({presence.why}).",
            retry_after_ms=NOT_THERE_RETRY_MS,
        )
        _, chain = await self.session_of(caller, context)
        call = ToolCall(
            call_id=CallId(self._clock.fresh("call")),
            tool=ToolName(tool),
            arguments=arguments if _sent_size(arguments)[1] is None else {},
            chain=chain,
            turn=context.turn,
        )
        self._books.count_denied(call, CallKind.TOOL, denied)
        now_ms = self._clock.now_ms()
        await self._books.note_unheld(
            record_of_absence(call, relay.name, denied, policy=self._policy(), now_ms=now_ms)
        )
        told = denial_result(denied, has_output_schema=False)
        standing = await self._books.standing(chain)
        return told.with_meta(**{CALL_META: {"call_id": call.call_id}, BUDGET_META: standing})

    def _may_name(self, caller: Caller, tool: str) -> bool:
        """Tell whether a caller may use a tool of that name, if there is one."""
        policy, name = self._policy(), ToolName(tool)
        rule = policy.rule_for(tool=name, tenant=caller.tenant, agent=caller.agent)
        keeping = policy.access.refusing(
            Offer.TOOL, name, tenant=caller.tenant, agent=caller.agent, is_own=False
        )
        return rule.allow and keeping is None

    def _may_call_found(self, caller: Caller, context: CallContext) -> bool:
        """Tell whether the house's own `tools_call` is there and open to a caller."""
        try:
            entry = self._stock.catalog.find(discovery.CALL)
        except UnknownToolError:
            return False
        return entry.is_own and self._is_open(entry, caller, context)

    async def _refused(self, chain: ScopeChain, text: str) -> ToolResult:
        refused = text_result(text, is_error=True)
        return refused.with_meta(**{BUDGET_META: await self._books.standing(chain)})


def _urgency_of(context: CallContext, intent: Intent) -> Urgency:
    """Return what a request wants; the priority that it declares counts where it names no other."""
    if intent.priority is None or context.urgency.priority is not None:
        return context.urgency
    return replace(context.urgency, priority=intent.priority)


def _idempotency(key: str, tool: str, arguments: Mapping[str, object]) -> Idempotency:
    return Idempotency(key=key, payload_hash=payload_hash(tool, arguments))


def _key_of(context: CallContext, exchange: Exchange) -> str | None:
    """Return the request's idempotency key.

    A retry that brings what was asked for is another request than the one that was asked
    about, though clients send both under the same key.
    """
    key, extras = context.idempotency_key, exchange.wishes.extras
    if key is None or not extras:
        return key
    return f"retry/{payload_hash(key, extras)}"


def _sent_size(arguments: Mapping[str, object]) -> tuple[int, str | None]:
    """Return the size of arguments in bytes of UTF-8, and why they cannot be sent, if so.

    JSON can escape half of a surrogate pair, which no UTF-8 text can hold.
    """
    try:
        return len(_text_of(arguments).encode()), None
    except UnicodeEncodeError:
        return 0, "arguments: a string holds half of a surrogate pair, which is not text"
