"""Takes what is said of calls: by their agents, by administrators, by what became of a session."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from governor.ids import CallId, PrincipalId, SessionId, TenantId
from governor.learning.verdict import TRUSTED, Reporter, Source, weight_of
from governor.target import CallKind
from memory_store.calls import CallView
from memory_store.errors import NotFoundError, StoreError
from memory_store.router_log import OutcomeReport
from tool_gateway import telemetry
from tool_gateway.ports import Clock

_ADMINISTRATORS = "admin:"


class Log(Protocol):
    """Where reports are kept."""

    async def report(self, reports: tuple[OutcomeReport, ...]) -> None:
        """Keep what is said of calls."""

    async def calls_of(self, session: SessionId) -> tuple[CallId, ...]:
        """Return the latest calls of a session that a tier was chosen for, and that it served."""
        ...


class Calls(Protocol):
    """Which calls there were."""

    async def get(self, call_id: CallId) -> CallView:
        """Return a call that ended."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What somebody says of a call."""

    call_id: CallId
    score: float
    source: Source


class Heard(Protocol):
    """Whoever learns beside the log of what became of calls."""

    def __call__(self, call_id: CallId, score: float, *, ends_task: bool, counts: float) -> None:
        """Learn the outcome of a call, or that of the whole task that it was of; never raises.

        `counts` is by how much of a call whoever says so is believed.
        """
        ...


class SessionHeard(Protocol):
    """Whoever learns what became of sessions; never raises."""

    async def __call__(self, session: SessionId, *, is_success: bool, reporter: Reporter) -> None:
        """Learn how a session went."""


class Feedback:
    """Keeps reports with the weight that they have by who makes them."""

    def __init__(
        self,
        log: Log,
        calls: Calls,
        *,
        clock: Clock,
        trusted: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """Take where it is kept, and whose word counts like an administrator's.

        Whoever is set as `heard_by` is told of each report that is not a model's own, and
        `ended_by` of each session that ended.
        """
        self._log = log
        self._calls = calls
        self._clock = clock
        self._trusted = trusted
        self.heard_by: Heard | None = None
        self.ended_by: SessionHeard | None = None

    def reporter_of(self, agent: PrincipalId, *, is_pinned: bool) -> Reporter:
        """Return whose word that of an agent is; the key of a run is the model's own."""
        if is_pinned:
            return Reporter.RUN
        return Reporter.TRUSTED if agent in self._trusted() else Reporter.AGENT

    async def hear(
        self,
        said: Report,
        *,
        tenant: TenantId,
        agent: PrincipalId,
        within: SessionId | None = None,
    ) -> None:
        """Keep what an agent says of its own call; `within` is the only session of a pinned key.

        A trusted one is a harness, which rates the calls of the agents that it runs as well.

        Raises:
            NotFoundError: it has no such call, or the call has not ended.
            StoreError: it cannot be kept.
        """
        try:
            record = (await self._calls.get(said.call_id)).record
        except NotFoundError:
            record = None
        reporter = self.reporter_of(agent, is_pinned=within is not None)
        if (
            record is None
            or record.kind is not CallKind.MODEL
            or record.chain.tenant != tenant
            or (record.chain.agent != agent and reporter is not Reporter.TRUSTED)
            or (within is not None and record.chain.session != within)
        ):
            telemetry.count_router_outcome(source=said.source.value, outcome="unknown")
            message = f"there is no model call {said.call_id}"
            raise NotFoundError(message)
        await self._keep(said, reporter, by=agent)

    async def hear_administrator(self, said: Report, *, name: str) -> None:
        """Keep what an administrator says of a call.

        Raises:
            NotFoundError: there is no such model call.
            StoreError: it cannot be kept.
        """
        record = (await self._calls.get(said.call_id)).record
        if record.kind is not CallKind.MODEL:
            message = f"there is no model call {said.call_id}"
            raise NotFoundError(message)
        await self._keep(said, Reporter.ADMINISTRATOR, by=f"{_ADMINISTRATORS}{name}")

    async def session_ended(
        self, session: SessionId, *, is_success: bool, reporter: Reporter, by: str
    ) -> int:
        """Spread what became of a session over its calls; return over how many.

        Best effort: what became of the session is kept elsewhere, and stands.
        """
        if self.ended_by is not None:
            await self.ended_by(session, is_success=is_success, reporter=reporter)
        try:
            calls = await self._log.calls_of(session)
            weight = weight_of(Source.TASK, reporter, calls=len(calls))
            now_ms = self._clock.now_ms()
            is_trusted = reporter in TRUSTED
            reports = tuple(
                OutcomeReport(
                    call_id=call_id,
                    source=Source.TASK,
                    reported_by=_named(by, reporter),
                    score=float(is_success),
                    weight=weight,
                    is_trusted=is_trusted,
                    reported_at_ms=now_ms,
                )
                for call_id in calls
            )
            if reports:
                await self._log.report(reports)
                # The latest call is of the task that ended, should there have been others before.
                alone = weight_of(Source.TASK, reporter)
                self._tell(calls[0], float(is_success), reporter, ends_task=True, counts=alone)
                telemetry.count_router_outcome(source=Source.TASK.value, outcome="taken")
        except StoreError:
            telemetry.count_failure("router_outcome")
            return 0
        return len(reports)

    async def _keep(self, said: Report, reporter: Reporter, *, by: str) -> None:
        weight = weight_of(said.source, reporter)
        report = OutcomeReport(
            call_id=said.call_id,
            source=said.source,
            reported_by=by,
            score=said.score,
            weight=weight,
            is_trusted=reporter in TRUSTED,
            reported_at_ms=self._clock.now_ms(),
        )
        await self._log.report((report,))
        # Tests are run time and again while a task goes on.
        ends_task = said.source is Source.TASK
        self._tell(said.call_id, said.score, reporter, ends_task=ends_task, counts=weight)
        telemetry.count_router_outcome(source=said.source.value, outcome="taken")

    def _tell(
        self, call_id: CallId, score: float, reporter: Reporter, *, ends_task: bool, counts: float
    ) -> None:
        if self.heard_by is not None and reporter is not Reporter.RUN:
            self.heard_by(call_id, score, ends_task=ends_task, counts=counts)


def _named(by: str, reporter: Reporter) -> str:
    return f"{_ADMINISTRATORS}{by}" if reporter is Reporter.ADMINISTRATOR else by
