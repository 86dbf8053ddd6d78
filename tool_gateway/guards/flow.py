"""Flow rules on the path of a call: what its session has seen decides whether it may run.

What a session has seen is stored before the call that shows it is forwarded. So whatever fails,
no result reaches a model of which a restarted sidecar would not know.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

from governor.call import ToolCall
from governor.denial import Denied
from governor.flow.labels import Label, Traits, traits_of
from governor.flow.policy import TAINTS, FlowPolicy, Seen, Then, judge, learned
from governor.flow.wording import CHARS_MAX, Words, words_of
from governor.ids import SessionId, TaskClass, ToolName
from governor.policy import ApprovalTerms
from governor.scope import ScopeChain
from tool_gateway import telemetry
from tool_gateway.builtin import BUILTIN
from tool_gateway.catalog import ToolEntry
from tool_gateway.denials import flow_denied, ledger_unavailable
from tool_gateway.errors import (
    ArchiveMissError,
    GatewayError,
    LedgerOverloadedError,
    LedgerUnavailableError,
)
from tool_gateway.guards.facts import facts_of
from tool_gateway.job import Job
from tool_gateway.memory.requests import archive_asked, shows_no_archive
from tool_gateway.ports import Clock, FlowStore, ResultArchive
from tool_gateway.results import ToolResult

SESSIONS_MAX = 4_096
_UNTRUSTED = frozenset({Label.SEES_UNTRUSTED})
_DOWN = (LedgerUnavailableError, LedgerOverloadedError)


@dataclass(slots=True)
class _Flow:
    """One session, with those below it, as this process knows it."""

    root: SessionId
    seen: Seen


class FlowGuard:
    """Applies a flow policy to calls; without one it lets every call pass.

    `is_shared` says that other sidecars serve the same sessions: then what they have seen is
    asked for again before each call that acts.
    """

    def __init__(
        self,
        *,
        policy: FlowPolicy | None,
        approval: ApprovalTerms,
        store: FlowStore,
        clock: Clock,
        is_shared: bool = False,
        keeps_marks: bool = False,
        class_of: Callable[[ScopeChain], TaskClass | None] | None = None,
        archive: ResultArchive | None = None,
    ) -> None:
        """Start with no session; `class_of` names the class of those that name none.

        Without an `archive` a call that asks it for what it may not have counts as if it had it.

        Where it `keeps_marks`, what sessions have seen of what others wrote is kept without
        any rule too: the memory goes by it.
        """
        self._archive = archive
        self._keeps_marks = keeps_marks
        self._policy = policy
        self._approval = approval
        self._store = store
        self._clock = clock
        self._is_shared = is_shared
        self._class_of = class_of
        self._traits: dict[ToolName, tuple[ToolEntry, Traits]] = {}
        self._flows: OrderedDict[SessionId, _Flow] = OrderedDict()
        self._roots: OrderedDict[SessionId, SessionId] = OrderedDict()

    def adopt(self, policy: FlowPolicy | None, approval: ApprovalTerms) -> None:
        """Go by other rules from now on.

        Where there were none before, what sessions have seen until now is not known.
        """
        self._policy, self._approval = policy, approval
        self._traits.clear()

    async def checked(self, job: Job) -> Job | Denied:
        """Return the job, with a question to a person where a rule asks for one, or a denial."""
        policy = self._policy
        if policy is None:
            return job
        traits = self.traits_of(job.entry)
        if not traits.acts and not policy.tasks:
            return job
        try:
            flow = await self._flow_of(job.call.chain, is_fresh=self._is_shared)
        except _DOWN:
            telemetry.count_failure("flow")
            return ledger_unavailable()
        stopped = judge(
            policy,
            self._seen_by(flow, job.call),
            tool=job.call.tool,
            agent=job.call.chain.agent,
            traits=traits,
            arguments=job.call.arguments,
        )
        telemetry.count_flow("allow" if stopped is None else stopped.then.value)
        if stopped is None:
            return job
        if stopped.then is Then.DENY:
            return flow_denied(stopped, tool=job.call.tool)
        # The rule's own terms hold where it asks a person anyway.
        terms = job.rule.approval or self._approval
        name = f"{job.rule.name} (flow {stopped.rule}: {stopped.why})"
        return replace(job, rule=replace(job.rule, name=name, approval=terms))

    async def note(self, job: Job) -> None:
        """Keep what the call is about to show its session; it must not leave before.

        Raises:
            LedgerUnavailableError: it cannot be kept.
            LedgerOverloadedError: as above.
        """
        taints = self._taints_of(job)
        if taints & _UNTRUSTED and await self._reads_nothing(job):
            taints -= _UNTRUSTED
        if taints:
            await self.mark(job.call.chain, taints, tool=job.call.tool)

    async def mark(self, chain: ScopeChain, taints: frozenset[Label], *, tool: ToolName) -> None:
        """Keep what `tool` shows a session, rules or none; it must not be shown before.

        Raises:
            LedgerUnavailableError: it cannot be kept.
            LedgerOverloadedError: as above.
        """
        flow = await self._flow_of(chain)
        new = {label: tool for label in Label if label in taints - flow.seen.marks.keys()}
        if new:
            await self._store.mark(flow.root, new, now_ms=self._clock.now_ms())
            flow.seen = replace(flow.seen, marks={**flow.seen.marks, **new})

    async def seen_by(self, chain: ScopeChain) -> frozenset[Label]:
        """Return what is known that a session has seen.

        Raises:
            LedgerUnavailableError: nobody can say.
            LedgerOverloadedError: as above.
        """
        flow = await self._flow_of(chain, is_fresh=self._is_shared)
        return frozenset(flow.seen.marks)

    def is_noted(self, job: Job) -> bool:
        """Tell whether nothing is left to keep of what the call will show its session."""
        taints = self._taints_of(job)
        session = job.call.chain.session
        flow = self._flows.get(self._roots.get(session, session))
        return not taints or (flow is not None and taints <= flow.seen.marks.keys())

    def learn(self, job: Job, result: ToolResult) -> None:
        """Remember the addresses that the user's own records answer, or what the user pointed at.

        They stay in this process: after a restart a person is asked where they would have vouched.
        """
        if self._policy is None or result.is_error:
            return
        flow = self._flows.get(self._roots.get(job.call.chain.session, job.call.chain.session))
        if flow is not None:
            traits = self.traits_of(job.entry)
            flow.seen = learned(flow.seen, traits, job.call.arguments, _texts_of(result))

    async def hear(
        self,
        chain: ScopeChain,
        words: str,
        *,
        words_from: str,
        task_class: TaskClass | None = None,
    ) -> bool:
        """Take a text as the user's own words; False where some were said, or it is too late.

        It is too late once the session has seen what others wrote: they may have had it said.

        Raises:
            LedgerUnavailableError: it cannot be kept.
            LedgerOverloadedError: as above.
        """
        flow = await self._flow_of(chain, is_fresh=True)
        said = await self._store.say(
            flow.root,
            words[:CHARS_MAX],
            words_from=words_from,
            task_class=task_class,
            now_ms=self._clock.now_ms(),
        )
        if said:
            flow.seen = replace(flow.seen, asked=words_of(words), task_class=task_class)
        return said

    async def overhear(self, chain: ScopeChain, words: str) -> None:
        """Take the first user messages of a session for its user's words, where rules need them.

        Nothing is lost by a failure but an exception from a rule: a person is asked instead.
        """
        if self._policy is None or not words:
            return
        try:
            flow = await self._flow_of(chain)
            if flow.seen.asked is None and not flow.seen.marks:
                await self.hear(chain, words, words_from="first messages")
        except _DOWN:
            telemetry.count_failure("flow")

    def traits_of(self, entry: ToolEntry) -> Traits:
        """Return the labels of a tool, and what they were told from."""
        known = self._traits.get(entry.exposed)
        if known is not None and known[0] is entry:
            return known[1]
        traits = entry.traits or _of_the_house(entry) or traits_of(facts_of(entry))
        if self._policy is not None:
            traits = self._policy.traits(entry.exposed, traits)
        self._traits[entry.exposed] = (entry, traits)
        return traits

    def _taints_of(self, job: Job) -> frozenset[Label]:
        """Return what is kept of what a call shows its session.

        What the memory hands out by the index of an experience is marked by its lane, there.
        """
        if self._policy is None and not self._keeps_marks:
            return frozenset()
        kept = TAINTS if self._policy is not None else _UNTRUSTED
        if job.entry.is_own and shows_no_archive(job.call):
            kept -= _UNTRUSTED
        return self.traits_of(job.entry).labels & kept

    async def _reads_nothing(self, job: Job) -> bool:
        """Tell whether a call asks the archive for what is not there for it, and so shows nothing.

        What is kept there never comes to be under an index that was asked for before.
        """
        index = archive_asked(job.call) if job.entry.is_own else None
        if index is None or self._archive is None or job.repeat.served is not None:
            return False
        try:
            await self._archive.read(index, chain=job.call.chain, offset=0, length=1)
        except ArchiveMissError:
            return True
        except GatewayError:
            return False  # what it will show then, nobody knows yet
        return False

    def _seen_by(self, flow: _Flow, call: ToolCall) -> Seen:
        """Return what the session has seen, in the class that its call or its agent names."""
        seen = flow.seen
        if seen.task_class is not None:
            return seen
        named = call.task_class
        if named is None and self._class_of is not None:
            named = self._class_of(call.chain)
        return seen if named is None else replace(seen, task_class=named)

    async def _flow_of(self, chain: ScopeChain, *, is_fresh: bool = False) -> _Flow:
        """Return the flow that a session belongs to; the one that rested longest is forgotten."""
        session = chain.session
        flow = self._flows.get(self._roots.get(session, session))
        if flow is None or is_fresh or session not in self._roots:
            known = await self._store.known(session)
            flow = self._flows.setdefault(known.root, _Flow(root=known.root, seen=Seen(marks={})))
            asked: Words | None = flow.seen.asked
            if asked is None and known.words is not None:
                asked = words_of(known.words)
            flow.seen = replace(
                flow.seen,
                marks={**known.marks, **flow.seen.marks},
                asked=asked,
                task_class=known.task_class,
            )
            if known.is_settled:
                self._roots[session] = known.root
            while len(self._roots) > SESSIONS_MAX:
                self._roots.popitem(last=False)
        self._flows.move_to_end(flow.root)
        while len(self._flows) > SESSIONS_MAX:
            self._flows.popitem(last=False)
        return flow


def _texts_of(result: ToolResult) -> str:
    texts = (str(block["text"]) for block in result.content if block.get("type") == "text")
    return "\n".join(texts)


def _of_the_house(entry: ToolEntry) -> Traits | None:
    """Return the labels of a built-in tool, None of any other.

    They ask the house about itself. What the memory's tools can do they say themselves.
    """
    if entry.backend != BUILTIN:
        return None
    return Traits(labels=frozenset())
