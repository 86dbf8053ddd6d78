"""What an agent's run is charged: one record for the whole, and slices held before they begin."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ebpf.executor import Measured
from governor.admission import AdmissionRequest
from governor.amounts import NOTHING, Amounts, Unit
from governor.call import CallRecord, CallStatus, Isolated
from governor.denial import DenialReason, Denied
from governor.estimate import energy_mj, unexcused
from governor.events import KeyReused, Replayed, Reserved
from governor.ids import BudgetId, CallId, ReservationId, UpstreamName
from governor.limits import ExecutionLimits
from governor.policy import AGENT_RUN, ToolRule
from governor.scope import ScopeChain
from governor.slices import SLICE_MS_MIN, fitting_slice_ms, held_for_slice, rate_millis
from governor.target import CallKind, CallTarget
from governor.usage import OF_PROBES, OF_THE_MACHINE, Usage
from tool_gateway.books import EXPIRY_GRACE_MS, Books
from tool_gateway.ports import Clock

_BACKEND = UpstreamName("local")
# The reaper of another sidecar on the same store does not know what runs here.
_WHOLE_MS_MAX = 7 * 24 * 60 * 60 * 1000
_NOT_READ = "the domain could not be read"
_PROBE_ENDED = "its probe ended while the agent ran"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Whose run it is, by which rule and within which limits it goes on.

    `allowance` is the budget that was carved out for this run alone.
    """

    run_id: CallId
    chain: ScopeChain
    session_name: str
    rule: ToolRule
    policy_version: str
    limits: ExecutionLimits
    unmeasurable: Mapping[Unit, str]
    milliwatts_per_core: int | None
    arguments: str
    allowance: BudgetId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """What was used up to a moment; `wall_ms` leaves out the time that it stood still."""

    totals: Mapping[Unit, int] = field(default_factory=dict)
    wall_ms: int = 0
    peak_bytes: int | None = None


@dataclass(slots=True)
class Purse:
    """Holds and settles for one run; whatever happens, `close` ends what is held."""

    terms: Terms
    books: Books
    clock: Clock
    settled: Amounts = NOTHING
    slice_ms: int = 0
    unmeasured: dict[Unit, str] = field(default_factory=dict)
    _whole: Reserved | None = None
    _slice: Reserved | None = None
    _began_ms: int = 0
    _slice_began_ms: int = 0
    _elapsed_from: int = 0
    _elapsed_to: int | None = None
    _number: int = 0
    _last: _Reading = field(default_factory=_Reading)
    _ended_probes: Mapping[Unit, str] = field(default_factory=dict)
    _rate_millis: int = 1_000
    _memory_rate: int = 0

    @property
    def _unmeasurable(self) -> Mapping[Unit, str]:
        """Return what nobody measures of this run any more."""
        return {**self.terms.unmeasurable, **self._ended_probes}

    async def open(self) -> ReservationId | Denied:
        """Hold what the run costs once, and return that hold; or why there is none."""
        self._began_ms, self._elapsed_from = self.clock.now_ms(), self.clock.elapsed_ms()
        once = {Unit.TOOL_CALLS: 1, Unit.COST_MICROUSD: self.terms.rule.cost_microusd}
        # Held at nothing, so that what the last moments take is charged to somebody.
        measured = [
            unit for unit in (*OF_THE_MACHINE, *OF_PROBES) if unit not in self.terms.unmeasurable
        ]
        amounts = Amounts({Unit.WALL_MS: 0, **dict.fromkeys(measured, 0), **once})
        decision = await self._admit(self.terms.run_id, amounts, for_ms=_WHOLE_MS_MAX)
        if isinstance(decision, Denied):
            return decision
        self._whole = decision
        return decision.reservation.reservation_id

    async def pay(self, slice_ms: int) -> Denied | None:
        """Hold what the next slice may take, a shorter one where there is no room for it.

        How long the slice that is paid may last is in `slice_ms`. The one before it must have
        been settled.
        """
        denied = await self._hold(slice_ms)
        if denied is not None and slice_ms > SLICE_MS_MIN:
            slice_ms = SLICE_MS_MIN
            denied = await self._hold(slice_ms)
        if denied is not None and (fits_ms := fitting_slice_ms(slice_ms, denied)) is not None:
            denied = await self._hold(fits_ms)
        return denied

    async def _hold(self, slice_ms: int) -> Denied | None:
        assert self._slice is None, "one slice after the other"
        self._number += 1
        amounts = held_for_slice(
            slice_ms,
            limits=self.terms.limits,
            cpu_rate_millis=self._rate_millis,
            memory_mib_s=self._memory_rate,
            unmeasurable=self.terms.unmeasurable,
            milliwatts_per_core=self.terms.milliwatts_per_core,
        )
        self._slice_began_ms = self.clock.now_ms()
        call_id = CallId(f"{self.terms.run_id}.{self._number}")
        decision = await self._admit(call_id, amounts, for_ms=slice_ms)
        if isinstance(decision, Denied):
            return decision
        self._slice, self.slice_ms = decision, slice_ms
        return None

    async def settle(self, measured: Measured | None, isolated: Isolated) -> None:
        """End the slice with what was used since the last one."""
        if self._slice is None:
            return
        reserved, self._slice = self._slice, None
        usage = self._since_last(measured)
        record = self._record(
            reserved,
            usage,
            started_at_ms=self._slice_began_ms,
            status=CallStatus.OK,
            detail=f"part {self._number} of {self.terms.run_id}",
            isolated=isolated,
        )
        await self.books.end(reserved.reservation.reservation_id, record)

    async def close(
        self,
        measured: Measured | None,
        *,
        status: CallStatus,
        detail: str,
        isolated: Isolated,
        denial: DenialReason | None = None,
    ) -> Usage:
        """End all that is held, and return what the whole run was charged."""
        # Nothing runs any more: what the ledger takes from here on is not the agent's time.
        self._elapsed_to = self.clock.elapsed_ms()
        await self.settle(measured, isolated)
        rest = self._since_last(measured)
        once = {Unit.TOOL_CALLS: 1, Unit.COST_MICROUSD: self.terms.rule.cost_microusd}
        usage = Usage(
            measured=Amounts({**dict(rest.measured), **once}),
            unmeasured=rest.unmeasured,
            memory_peak_bytes=self._last.peak_bytes,
        )
        self.settled = self.settled.plus(Amounts(once))
        if self._whole is not None:
            reserved, self._whole = self._whole, None
            record = self._record(
                reserved,
                usage,
                started_at_ms=self._began_ms,
                status=status,
                detail=detail,
                isolated=isolated,
                denial=denial,
            )
            await self.books.end(reserved.reservation.reservation_id, record)
        return Usage(
            measured=self.settled,
            unmeasured=self.unmeasured,
            memory_peak_bytes=self._last.peak_bytes,
        )

    async def release(self, detail: str) -> None:
        """End all that is held of a run that never began."""
        for reserved, began_ms in (
            (self._slice, self._slice_began_ms),
            (self._whole, self._began_ms),
        ):
            if reserved is not None:
                record = self._record(
                    reserved,
                    None,
                    started_at_ms=began_ms,
                    status=CallStatus.RELEASED,
                    detail=detail,
                    isolated=None,
                )
                await self.books.end(reserved.reservation.reservation_id, record)
        self._slice = self._whole = None

    async def _admit(self, call_id: CallId, amounts: Amounts, *, for_ms: int) -> Reserved | Denied:
        now_ms = self.clock.now_ms()
        decision = await self.books.admit(
            AdmissionRequest(
                reservation_id=ReservationId(self.clock.fresh("res")),
                call_id=call_id,
                target=CallTarget(kind=CallKind.TOOL, name=AGENT_RUN, upstream=_BACKEND),
                chain=self.terms.chain,
                session_name=self.terms.session_name,
                estimate=amounts,
                turn=None,
                now_ms=now_ms,
                expires_at_ms=now_ms + for_ms + EXPIRY_GRACE_MS,
                unmeasurable=unexcused(self.terms.rule, self._unmeasurable),
                # An agent is no call among others: it takes no slot from its own calls.
                is_free=True,
                leaves_at_once=True,
            )
        )
        assert not isinstance(decision, Replayed | KeyReused), "it has no key"
        return decision

    def _since_last(self, measured: Measured | None) -> Usage:
        """Return what was used since it was last looked at, and learn from it for the next."""
        last, now = self._last, self._now(measured)
        self._last = now
        wall_ms = now.wall_ms - last.wall_ms
        # Samples can begin late, and never fall.
        found = {
            unit: max(0, total - last.totals.get(unit, 0))
            for unit, total in now.totals.items()
            if measured is not None
        }
        cpu_ms, watts = found.get(Unit.CPU_MS), self.terms.milliwatts_per_core
        if cpu_ms is not None and watts is not None:
            found[Unit.ENERGY_MJ] = energy_mj(cpu_ms, watts)
        self._rate_millis = rate_millis(cpu_ms, wall_ms, limits=self.terms.limits)
        if wall_ms > 0:
            self._memory_rate = 2_000 * found.get(Unit.MEMORY_MIB_S, 0) // wall_ms
        silent = [unit for unit in OF_PROBES if unit not in {**found, **self.terms.unmeasurable}]
        if measured is not None:
            self._ended_probes = dict.fromkeys(silent, _PROBE_ENDED)
        unmeasured = {
            unit: self._unmeasurable.get(unit, _NOT_READ)
            for unit in (*OF_THE_MACHINE, *silent)
            if unit not in found
        }
        usage = Usage(
            measured=Amounts({Unit.WALL_MS: wall_ms, **found}),
            unmeasured=unmeasured,
            memory_peak_bytes=now.peak_bytes,
        )
        self.settled = self.settled.plus(usage.measured)
        self.unmeasured.update(unmeasured)
        return usage

    def _now(self, measured: Measured | None) -> _Reading:
        now_ms = self.clock.elapsed_ms() if self._elapsed_to is None else self._elapsed_to
        elapsed_ms = now_ms - self._elapsed_from
        if measured is None:
            return replace(self._last, wall_ms=max(self._last.wall_ms, elapsed_ms))
        figures = {
            Unit.CPU_MS: measured.cpu_ms,
            Unit.MEMORY_MIB_S: measured.memory_mib_s,
            Unit.IO_BYTES: measured.io_bytes,
            **measured.attached,
        }
        return _Reading(
            totals={unit: total for unit, total in figures.items() if total is not None},
            # Two clocks: what it stood still is rounded.
            wall_ms=max(self._last.wall_ms, elapsed_ms - measured.frozen_ms),
            peak_bytes=measured.memory_peak_bytes,
        )

    def _record(
        self,
        reserved: Reserved,
        usage: Usage | None,
        *,
        started_at_ms: int,
        status: CallStatus,
        detail: str,
        isolated: Isolated | None,
        denial: DenialReason | None = None,
    ) -> CallRecord:
        terms = self.terms
        return CallRecord(
            call_id=reserved.reservation.call_id,
            kind=CallKind.TOOL,
            name=AGENT_RUN,
            chain=terms.chain,
            turn=None,
            status=status,
            started_at_ms=started_at_ms,
            ended_at_ms=max(started_at_ms, self.clock.now_ms()),
            arguments=terms.arguments,
            backend=_BACKEND,
            rule=terms.rule.name,
            policy_version=terms.policy_version,
            estimate=reserved.amount,
            usage=usage,
            denial=denial,
            detail=detail,
            isolated=isolated,
        )
