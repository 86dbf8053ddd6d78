"""The ledger as a governed path uses it, with a posture for each of its failures.

Admission fails closed: what cannot be held is denied. An ending that fails leaves the hold
to the reaper, and the result stands. Each failure is counted.
"""

from collections.abc import Mapping

import anyio

from governor.admission import AdmissionRequest
from governor.amounts import Amounts
from governor.call import CallRecord, CallStatus, ToolCall
from governor.denial import Denied
from governor.denial_tally import DenialTally
from governor.events import KeyReused, Replayed, Reserved, Settled
from governor.ids import ReservationId
from governor.scope import ScopeChain
from governor.target import CallKind
from tool_gateway import spans, telemetry
from tool_gateway.denials import ledger_unavailable, overloaded
from tool_gateway.errors import HoldEndedError, LedgerOverloadedError, LedgerUnavailableError
from tool_gateway.metering import budget_meta
from tool_gateway.ports import Clock, Ledger
from tool_gateway.tracking import Tracked, tracked

SETTLE_SECONDS_MAX = 10
# A hold outlives the longest run by this much before the reaper ends it.
EXPIRY_GRACE_MS = 60_000
OVERLOAD_RETRY_MS = 1_000
_DOWN = (LedgerUnavailableError, LedgerOverloadedError)
_MISSED = (*_DOWN, HoldEndedError)


class Books:
    """Holds, endings and records of calls, whatever kind of call it is."""

    def __init__(self, *, ledger: Ledger, clock: Clock, denials: DenialTally | None = None) -> None:
        """Take the ports; `denials` is where those that are told of are added up."""
        self._ledger = ledger
        self._clock = clock
        self._denials = denials

    async def admit(self, request: AdmissionRequest) -> Reserved | Denied | Replayed | KeyReused:
        """Hold the estimate, or say why not; a ledger that fails is a denial.

        Whoever is cancelled here, or told of a failure, does not know whether the estimate is
        held. Nothing of the call has left, so what may be held is released.
        """
        with spans.admitting(request):
            try:
                decision = await self._ledger.admit(request)
            except LedgerOverloadedError:
                return overloaded(OVERLOAD_RETRY_MS)
            except LedgerUnavailableError:
                telemetry.count_failure("admit")
                denied = ledger_unavailable()
                await self._let_go(request, CallStatus.DENIED, denied=denied)
                return denied
            except anyio.get_cancelled_exc_class():
                await self._let_go(request, CallStatus.CANCELLED)
                raise
            if isinstance(decision, Reserved):
                for short in decision.would_deny:
                    telemetry.note_notice(kind="would_deny", unit=short.unit.value)
            return decision

    def count_denied(self, call: ToolCall, kind: CallKind, denied: Denied) -> None:
        """Count a call that was not started, and have an administrator hear of it."""
        telemetry.count_denied(kind=kind.value, reason=denied.reason)
        spans.note_denied(call, denied.reason)
        if self._denials is not None:
            self._denials.note(call, kind, denied, now_ms=self._clock.now_ms())

    async def forward(self, reservation_id: ReservationId) -> Denied | None:
        """Mark the hold before the first upstream byte; a denial means that nothing may leave."""
        try:
            return await self._ledger.forward(reservation_id)
        except _MISSED:
            telemetry.count_failure("forward")
            return ledger_unavailable()

    async def end(self, reservation_id: ReservationId, record: CallRecord) -> Settled | None:
        """End the hold: settled at the record's usage, released where it has none.

        Shielded, so a cancelled client cannot leave a budget half charged; bounded, so a
        dead ledger cannot hang the client. What this misses, the reaper expires; what another
        sidecar's reaper was first to end (their clocks differ) stays as it is.
        """
        with (
            anyio.move_on_after(SETTLE_SECONDS_MAX, shield=True),
            telemetry.span("flyball.settle"),
        ):
            try:
                if record.usage is None:
                    await self._ledger.release(reservation_id, record)
                    return None
                settled = await self._ledger.settle(reservation_id, record.usage, record)
            except _MISSED:
                pass
            else:
                for warned in settled.warned:
                    telemetry.note_notice(kind="threshold", unit=warned.balance.key.unit.value)
                return settled
        telemetry.count_failure("settle")
        return None

    async def _let_go(
        self, request: AdmissionRequest, status: CallStatus, *, denied: Denied | None = None
    ) -> None:
        """Release the hold of a request that may have none; what this misses, the reaper expires.

        Its place is behind the admission's in the ledger's queue, shielded and bounded. That
        there is no such hold is the usual answer: the admission was not begun, or was undone.
        """
        record = _unsent(request, status, denied, ended_at_ms=self._clock.now_ms())
        with anyio.move_on_after(SETTLE_SECONDS_MAX, shield=True) as scope:
            try:
                await self._ledger.release(request.reservation_id, record)
            except HoldEndedError:
                return
            except _DOWN:
                telemetry.count_failure("release")
        if scope.cancelled_caught:
            telemetry.count_failure("release")

    async def note_unheld(self, record: CallRecord) -> None:
        """Keep the record of a call that held nothing: most of them were not started."""
        try:
            await self._ledger.record(record)
        except _DOWN:
            telemetry.count_failure("record")

    async def after(self, settled: Settled | None, chain: ScopeChain) -> Tracked | None:
        """Return how the budgets stand once a call has ended; a settlement already says it."""
        if settled is None:
            return await self.tracked(chain)
        return tracked(budget_meta(settled), now_ms=self._clock.now_ms())

    async def tracked(self, chain: ScopeChain) -> Tracked | None:
        """Return how the chain's budgets stand; None while nobody can say."""
        now_ms = self._clock.now_ms()
        try:
            return tracked(await self._ledger.standing(chain, now_ms=now_ms), now_ms=now_ms)
        except _DOWN:
            return None

    async def charged_to(self, chain: ScopeChain) -> Amounts | None:
        """Return what the chain's session was charged so far; None while nobody can say."""
        try:
            return await self._ledger.charged_to(chain.session)
        except _DOWN:
            return None

    async def standing(self, chain: ScopeChain) -> list[Mapping[str, object]] | None:
        """Return what remains of the chain's budgets; None while nobody can say."""
        found = await self.tracked(chain)
        return None if found is None else found.shown


def _unsent(
    request: AdmissionRequest, status: CallStatus, denied: Denied | None, *, ended_at_ms: int
) -> CallRecord:
    """Return the record of a call whose admission nobody waited for, or heard of."""
    gone = "the client went away before the call was sent"
    return CallRecord(
        call_id=request.call_id,
        kind=request.target.kind,
        name=request.target.name,
        chain=request.chain,
        turn=request.turn,
        status=status,
        started_at_ms=request.now_ms,
        ended_at_ms=max(request.now_ms, ended_at_ms),
        arguments="",
        backend=request.target.upstream,
        rule="",
        policy_version="",
        estimate=request.estimate,
        denial=None if denied is None else denied.reason,
        detail=gone if denied is None else denied.remedy.text,
    )
