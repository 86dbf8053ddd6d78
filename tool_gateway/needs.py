"""What a call needs: what is declared, what was learned of its like, and the rule's own word."""

import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from governor.amounts import Amounts, Unit
from governor.call import CallRecord, CallStatus, ToolCall
from governor.command_class import CommandClass, class_of
from governor.expectation import (
    NOTHING_KNOWN,
    Expectation,
    ExpectationTerms,
    Known,
    Measure,
    Work,
    expected,
)
from governor.intents import NO_INTENT, Grant, ceiling_bytes, granted
from governor.limits import ExecutionLimits
from governor.policy import ToolRule
from tool_gateway import telemetry
from tool_gateway.errors import LedgerOverloadedError, LedgerUnavailableError
from tool_gateway.job import Job, Needs
from tool_gateway.ports import Clock
from tool_gateway.refusals import Refusals
from tool_gateway.results import Json
from tool_gateway.shell import LOCAL

# As many kinds of work as a process remembers; the one that was met first gives way.
WORKS_MAX = 2_000
_PLACES_MAX = 1_000
_DEPTH_MAX = 40
_MIB = 1024 * 1024
_KIB = 1024
_LEARNED_FROM = frozenset(
    {CallStatus.OK, CallStatus.TOOL_ERROR, CallStatus.LIMIT_HIT, CallStatus.TIMED_OUT}
)
_SHOWN_ELSEWHERE: Json = {
    "basis": "declared",
    "why": "this tool runs elsewhere: only the expected duration and the priority count",
}
_MEASURES = {
    Unit.WALL_MS: Measure.WALL_MS,
    Unit.CPU_MS: Measure.CPU_MS,
    Unit.MEMORY_MIB_S: Measure.MEMORY_MIB_S,
}


class WorkStore(Protocol):
    """Where it is kept what kinds of work have used.

    Both methods may raise LedgerUnavailableError or LedgerOverloadedError.
    """

    async def all(self) -> Mapping[Work, Known]:
        """Return what is known."""
        ...

    async def add(self, learned: Mapping[Work, Known], *, now_ms: int) -> None:
        """Add what was learned to what is known."""
        ...


@dataclass(slots=True)
class _Memory:
    """What this process knows, and what of it the store does not know yet."""

    known: OrderedDict[Work, Known] = field(default_factory=OrderedDict)
    fresh: dict[Work, Known] = field(default_factory=dict)


class Needing:
    """Finds out what calls need, and learns from how they end."""

    def __init__(
        self,
        *,
        store: WorkStore,
        clock: Clock,
        terms: Callable[[], ExpectationTerms],
        workdir: str,
        refusals: Refusals,
    ) -> None:
        """Take the store, the terms in force, the usual directory, and what memory was refused."""
        self._refusals = refusals
        self._store = store
        self._clock = clock
        self._terms = terms
        self._workdir = workdir
        self._memory = _Memory()
        self._places: OrderedDict[str, str] = OrderedDict()

    def of(self, call: ToolCall, rule: ToolRule, backend: str) -> Needs:
        """Return what a call needs under a rule; what it declares never exceeds the rule."""
        is_local = backend == LOCAL
        work = self._work_of(call, is_local=is_local)
        if rule.is_free:
            return Needs(rule=rule, work=work)
        terms, known = self._terms(), self._memory.known
        found = expected(
            known.get(work, NOTHING_KNOWN), known.get(work.anywhere, NOTHING_KNOWN), terms
        )
        grant = granted(call.intent, rule.limits, refused_bytes=self._refusals.of(call))
        if not is_local:
            shown = None if call.intent == NO_INTENT else _SHOWN_ELSEWHERE
            held = _holding(rule, grant, found) if terms.holds else rule
            return Needs(rule=held, work=work, shown=shown)
        limits = _throttled(grant.limits, found, is_declared=call.intent.memory_bytes is not None)
        narrowed = replace(rule, limits=limits)
        return Needs(
            rule=_holding(narrowed, grant, found) if terms.holds else narrowed,
            work=work,
            shown=_shown(call, limits, grant, found, terms),
        )

    def learn(self, job: Job, record: CallRecord) -> None:
        """Learn from a call that ran to an end of its own or to a limit."""
        usage = record.usage
        if (
            usage is None
            or job.needs is None
            or record.status not in _LEARNED_FROM
            or job.rule.is_free
        ):
            return
        used = {_MEASURES[unit]: figure for unit, figure in usage.measured if unit in _MEASURES}
        if usage.memory_peak_bytes is not None:
            used[Measure.MEMORY_PEAK_KIB] = -(-usage.memory_peak_bytes // _KIB)
        work = job.needs.work
        for one in {work, work.anywhere}:
            self._note(one, Known().with_call(used))

    async def exchange(self) -> None:
        """Give the store what was learned here, and take what others learned.

        Raises:
            LedgerUnavailableError: the store failed; what was learned is kept for the next time.
            LedgerOverloadedError: it has too much to do.
        """
        fresh, self._memory.fresh = self._memory.fresh, {}
        if fresh:
            try:
                await self._store.add(fresh, now_ms=self._clock.now_ms())
            except (LedgerUnavailableError, LedgerOverloadedError):
                self._keep_for_later(fresh)
                raise
        known = OrderedDict(await self._store.all())
        # What was learned while the store was asked is not in its answer.
        for work, one in self._memory.fresh.items():
            known[work] = known.get(work, NOTHING_KNOWN).plus(one)
        self._memory.known = known

    def _keep_for_later(self, fresh: Mapping[Work, Known]) -> None:
        for work, known in fresh.items():
            later = self._memory.fresh
            later[work] = known.plus(later.get(work, NOTHING_KNOWN))

    def _note(self, work: Work, call: Known) -> None:
        memory = self._memory
        memory.known[work] = memory.known.get(work, NOTHING_KNOWN).plus(call)
        memory.known.move_to_end(work)
        if len(memory.known) > WORKS_MAX:
            memory.known.popitem(last=False)
        if work not in memory.fresh and len(memory.fresh) >= WORKS_MAX:
            telemetry.count_failure("learning")  # the store has been away for long
            return
        memory.fresh[work] = memory.fresh.get(work, NOTHING_KNOWN).plus(call)

    def _work_of(self, call: ToolCall, *, is_local: bool) -> Work:
        if not is_local:
            return Work(tenant=call.chain.tenant, tool=call.tool, kind=CommandClass.OTHER)
        cwd = call.arguments.get("cwd")
        return Work(
            tenant=call.chain.tenant,
            tool=call.tool,
            kind=class_of(_line_of(call.arguments)),
            repository=self._place_of(cwd if isinstance(cwd, str) else self._workdir),
        )

    def _place_of(self, cwd: str) -> str:
        """Return a name of the repository around a directory, which tells nobody its path."""
        place = self._places.get(cwd)
        if place is None:
            root = repository_of(cwd)
            place = hashlib.sha256(os.fsencode(root)).hexdigest()[:16]
            self._places[cwd] = place
            if len(self._places) > _PLACES_MAX:
                self._places.popitem(last=False)
        return place


def repository_of(cwd: str) -> str:
    """Return the top of the repository that a directory is in, else the directory."""
    here = os.path.normpath(cwd)
    for _ in range(_DEPTH_MAX):
        if os.path.lexists(os.path.join(here, ".git")):  # noqa: PTH118 - as bytes of any kind
            return here
        above = os.path.dirname(here)  # noqa: PTH120
        if above == here:
            break
        here = above
    return os.path.normpath(cwd)


def _line_of(arguments: Mapping[str, object]) -> str:
    line, argv = arguments.get("command"), arguments.get("argv")
    if isinstance(line, str):
        return line
    if isinstance(argv, list):
        return " ".join(map(str, argv))
    # A tool without a command line runs a program text.
    return "python -c"


def _throttled(
    limits: ExecutionLimits, found: Expectation, *, is_declared: bool
) -> ExecutionLimits:
    """Return the limits with what the call is expected to hold at the most.

    That is what it said itself, else more than its like ever had.
    """
    most = limits.memory_bytes
    if is_declared:
        return replace(limits, memory_expected_bytes=most)
    peak_kib = found.used.get(Measure.MEMORY_PEAK_KIB)
    if peak_kib is None or most is None or peak_kib * _KIB >= most:
        return limits
    return replace(limits, memory_expected_bytes=peak_kib * _KIB)


def _holding(rule: ToolRule, grant: Grant, found: Expectation) -> ToolRule:
    """Return the rule with what is held: its own word, else the call's, else what was learned.

    A call's word is not taken for less than its like have used: by declaring nothing at all it
    could else run beside any number of others, whatever the budget.
    """
    wall_ms = rule.estimate_wall_ms
    if wall_ms is None:
        said = (grant.expected_ms, found.used.get(Measure.WALL_MS))
        known = [one for one in said if one is not None]
        wall_ms = min(max(known), rule.limits.wall_ms) if known else None
    cpu_ms = rule.estimate_cpu_ms
    if cpu_ms is None and Measure.CPU_MS in found.used:
        most = rule.limits.cpu_ms
        cpu_ms = found.used[Measure.CPU_MS]
        cpu_ms = cpu_ms if most is None else min(cpu_ms, most)
    estimates = rule.estimates
    memory_mib_s = found.used.get(Measure.MEMORY_MIB_S)
    if Unit.MEMORY_MIB_S not in estimates and memory_mib_s is not None:
        most_mib_s = -(-(rule.limits.memory_bytes or 0) * rule.limits.wall_ms // (_MIB * 1000))
        held = min(memory_mib_s, most_mib_s) if most_mib_s else memory_mib_s
        estimates = Amounts({**estimates.by_unit, Unit.MEMORY_MIB_S: held})
    if (wall_ms, cpu_ms, estimates) == (
        rule.estimate_wall_ms,
        rule.estimate_cpu_ms,
        rule.estimates,
    ):
        return rule
    return replace(rule, estimate_wall_ms=wall_ms, estimate_cpu_ms=cpu_ms, estimates=estimates)


def _shown(
    call: ToolCall,
    limits: ExecutionLimits,
    grant: Grant,
    found: Expectation,
    terms: ExpectationTerms,
) -> Json:
    """Return what a call was granted, as `_meta["flyball/granted"]` shows it."""
    ceiling = ceiling_bytes(limits)
    is_declared = call.intent != NO_INTENT
    basis = "declared" if is_declared else "learned" if found.used else "rule"
    shown: dict[str, object] = {
        "basis": basis,
        "memory_mib": None if limits.memory_bytes is None else limits.memory_bytes // _MIB,
        "memory_mib_max": None if ceiling is None else ceiling // _MIB,
        "cpus": None if limits.cpu_millis is None else limits.cpu_millis / 1000,
        "wall_ms": limits.wall_ms,
        "calls_known": found.calls,
    }
    if found.used:
        shown["expected"] = {one.value: figure for one, figure in found.used.items()}
    elif not is_declared:
        shown["why"] = (
            f"unknown: {found.calls} of {terms.samples_min} calls like this one were seen, so "
            "the rule's limits are held"
        )
    if call.intent.priority is not None:
        shown["priority"] = call.intent.priority.value
    if grant.clamped:
        shown["clamped"] = list(grant.clamped)
    if grant.is_held_to_refusal:
        shown["refused"] = "more memory was refused in this session, and is not given unasked"
    return shown
