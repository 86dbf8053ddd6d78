"""The path that every tool call takes: it is resolved and guarded, and admitted or not."""

from dataclasses import replace

from governor.admission import AdmissionRequest
from governor.call import ToolCall
from governor.denial import Denied
from governor.estimate import unexcused
from governor.events import KeyReused, Replayed, Reserved
from governor.ids import ReservationId, ToolName
from governor.target import CallKind, CallTarget
from tool_gateway.admitted import AdmittedCalls
from tool_gateway.approver import Approver
from tool_gateway.books import EXPIRY_GRACE_MS, Books
from tool_gateway.catalog import ToolEntry
from tool_gateway.exchange import NOBODY, Exchange
from tool_gateway.guards.answers import AnswerGuard
from tool_gateway.guards.cache import ResultCache
from tool_gateway.guards.flow import FlowGuard
from tool_gateway.guards.gate import ReasoningGate, gated
from tool_gateway.guards.outside import Outside
from tool_gateway.job import Job, Repeat, Served
from tool_gateway.keeping import ResultKeeper
from tool_gateway.loop_watch import LoopWatch
from tool_gateway.memory.charging import MemoryCharging
from tool_gateway.memory.shortening import granted, shortened
from tool_gateway.needs import Needing
from tool_gateway.ports import Backend, Clock, PolicySource
from tool_gateway.raising import MemoryDesk
from tool_gateway.redaction import ArgumentsKept
from tool_gateway.results import ToolResult
from tool_gateway.running import Running, RunningCalls
from tool_gateway.turn_gate import TurnGate
from tool_gateway.turnstile import Passage, Turnstile
from tool_gateway.unrun import UnrunCalls
from tool_gateway.verdicts import refused_unasked


class Pipeline:
    """Runs tool calls under budgets; whatever happens, each reservation is ended once."""

    def __init__(
        self,
        *,
        books: Books,
        turns: TurnGate,
        approver: Approver,
        keeper: ResultKeeper,
        clock: Clock,
        policy: PolicySource,
        running: RunningCalls,
        arguments_kept: ArgumentsKept,
        turnstile: Turnstile,
        loops: LoopWatch,
        flow: FlowGuard,
        answers: AnswerGuard,
        gate: ReasoningGate | None = None,
        cache: ResultCache | None = None,
        memory: MemoryDesk | None = None,
        needing: Needing | None = None,
        charging: MemoryCharging | None = None,
        outside: Outside | None = None,
        admin_contact: str | None = None,
    ) -> None:
        """Take the ports; nothing is started. Denials name `admin_contact` as whom to ask."""
        self._turns = turns
        self._approver = approver
        self._clock = clock
        self._policy = policy
        self._running = running
        self._turnstile = turnstile
        self._loops = loops
        self._flow = flow
        self._gate = gate
        self._cache = cache
        self._needing = needing
        self._charging = charging
        self._outside = outside
        self._unrun = UnrunCalls(
            books=books,
            keeper=keeper,
            answers=answers,
            clock=clock,
            arguments_kept=arguments_kept,
            admin_contact=admin_contact,
        )
        self._admitted = AdmittedCalls(
            books=books,
            turns=turns,
            keeper=keeper,
            clock=clock,
            arguments_kept=arguments_kept,
            loops=loops,
            flow=flow,
            answers=answers,
            unrun=self._unrun,
            cache=cache,
            memory=memory,
            needing=needing,
            outside=outside,
        )

    async def run(
        self,
        call: ToolCall,
        *,
        session_name: str,
        entry: ToolEntry,
        backend: Backend,
        patience_ms: int = 0,
        is_retry: bool = False,
        served: Served | None = None,
        arguments_bytes: int = 0,
        answers_for: ToolName | None = None,
        exchange: Exchange = NOBODY,
    ) -> ToolResult:
        """Run `call` if the policy and every budget allow it; a denial is a result too.

        `patience_ms` is how long its client may be asked things meanwhile; `is_retry` tells
        that it brings the answers. `served` answers the call where it may run at all.
        `arguments_bytes` is the size of its arguments as JSON. It `answers_for` the tool whose
        result it brings: then the content is what that tool's rule allows.

        Raises:
            IdempotencyConflictError: the key was used before with another payload.
        """
        policy = self._policy()
        rule = policy.rule_for(
            tool=call.tool,
            tenant=call.chain.tenant,
            agent=call.chain.agent,
            is_own=entry.is_own,
        )
        if answers_for is not None:
            of_tool = policy.rule_for(
                tool=answers_for, tenant=call.chain.tenant, agent=call.chain.agent
            )
            rule = replace(rule, content=of_tool.content)
        needs = None if self._needing is None else self._needing.of(call, rule, backend.name)
        rule = rule if needs is None else needs.rule
        if self._charging is not None and entry.is_own:
            rule = self._charging.narrowed(call, rule)
        job = Job(
            call=call,
            session_name=session_name,
            entry=entry,
            rule=rule,
            needs=needs,
            backend=backend,
            isolated=backend.isolation_for(call, rule.limits),
            started_at_ms=self._clock.now_ms(),
            policy=policy,
            patience_ms=patience_ms,
            is_retry=is_retry,
            repeat=Repeat(served=served),
            arguments_bytes=arguments_bytes,
            exchange=exchange,
        )
        job, refused = await self._guarded(job)
        if refused is not None:
            return await self._unrun.denied(job, refused)
        with (
            self._running.track(call.call_id, call.chain.session) as running,
            self._turnstile.entered(
                call,
                kind=CallKind.TOOL,
                backend=backend.name,
                reaches_it=job.repeat.served is None,
            ) as passage,
        ):
            return await self._run_tracked(job, running, passage)

    async def _run_tracked(self, job: Job, running: Running, passage: Passage) -> ToolResult:
        decision: Reserved | Denied | Replayed | KeyReused
        if job.rule.approval is not None:
            # A person may take long, and nobody else should wait for a slot meanwhile: the
            # call takes its turn when it is approved.
            # Nor is anybody asked about a call that would get nowhere.
            decision = passage.turned_away() or await self._approver.admit(
                job, self._request(job), running
            )
        else:
            # Stopped here, it has no slot: then the ledger says why it may not run, or it is
            # stopped where it would.
            if not passage.at_once():
                with running.stoppable():
                    await passage.turn()
            if passage.has_waited:
                job = replace(job, started_at_ms=self._clock.now_ms())
            decision = passage.denied or await self._admission(job, running)
            if isinstance(decision, Denied) and (shorter := self._shorter(job, decision)):
                job, decision = shorter, await self._admission(shorter, running)
        if not isinstance(decision, Reserved):
            return await self._unrun.answered(job, decision)
        return await self._admitted.run(job.under(decision), decision, running, passage)

    async def _admission(
        self, job: Job, running: Running
    ) -> Reserved | Denied | Replayed | KeyReused:
        leaves_at_once = job.repeat.served is None and self._flow.is_noted(job)
        request = self._request(job, leaves_at_once=leaves_at_once)
        # Before it is stored, so that no clock is faster.
        running.runs_on(request.call_id, request.reservation_id)
        return await self._turns.admit(request, task_class=job.call.task_class)

    def _shorter(self, job: Job, denied: Denied) -> Job | None:
        """Return the job cut to what a budget has left, where it can be and is of use."""
        if self._charging is None or not job.entry.is_own or job.repeat.served is not None:
            return None
        call = shortened(job.call, denied, job.rule, self._charging.prices)
        if call is None:
            return None
        rule = self._charging.narrowed(call, job.rule)
        # A shorter answer is none to the question as it was asked.
        return replace(job, call=call, rule=rule, cache_scope=None, cut=granted(call, job.call))

    async def _guarded(self, job: Job) -> tuple[Job, Denied | None]:
        """Return the job with what the guards found about it, or the first denial of theirs."""
        refused = refused_unasked(job)
        if refused is None and self._gate is not None:
            refused = await gated(self._gate, job)
        if refused is not None:
            return job, refused
        if job.repeat.served is None:
            job = await self._loops.checked(job)
            if job.repeat.denied is not None or job.repeat.served is not None:
                return job, job.repeat.denied
        flowing = await self._flow.checked(job)
        if isinstance(flowing, Denied):
            return job, flowing
        if self._outside is not None:
            asked = await self._outside.checked(flowing)
            if isinstance(asked, Denied):
                return flowing, asked
            flowing = asked
        return (flowing if self._cache is None else self._cache.looked_up(flowing)), None

    def _request(self, job: Job, *, leaves_at_once: bool = False) -> AdmissionRequest:
        call, rule = job.call, job.rule
        unmeasurable = job.backend.unmeasurable
        return AdmissionRequest(
            reservation_id=ReservationId(self._clock.fresh("res")),
            call_id=call.call_id,
            target=CallTarget(kind=CallKind.TOOL, name=call.tool, upstream=job.backend.name),
            chain=call.chain,
            session_name=job.session_name,
            estimate=job.estimate,
            turn=None if rule.is_free else job.turn,
            now_ms=job.started_at_ms,
            expires_at_ms=job.started_at_ms
            + rule.limits.wall_ms
            + job.patience_ms
            + EXPIRY_GRACE_MS,
            unmeasurable=unexcused(rule, unmeasurable),
            idempotency=call.idempotency,
            # What a person is asked about has not begun: it outlives the process that asked.
            outlives_process=rule.approval is not None,
            is_free=rule.is_free,
            leaves_at_once=leaves_at_once,
        )
