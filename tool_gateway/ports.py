"""What the gateway needs from the rest of the house, as the methods that it calls."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from governor.admission import AdmissionRequest
from governor.amounts import Amounts, Unit
from governor.approval import Approval, Asked
from governor.call import CallRecord, CallStatus, Isolated, ToolCall
from governor.denial import Denied
from governor.events import KeyReused, Released, Replayed, Reserved, Settled
from governor.fairness.claim import Priority
from governor.flow.labels import Label
from governor.ids import (
    ApprovalId,
    ArchiveId,
    CallId,
    PrincipalId,
    ReservationId,
    SessionId,
    TaskClass,
    TenantId,
    ToolName,
    TurnId,
    UpstreamName,
)
from governor.limits import ExecutionLimits
from governor.policy import Policy
from governor.scope import ScopeChain
from governor.turn_control import FinishedSession
from governor.turn_policy import TurnMode
from governor.turn_progress import CallPrint
from governor.usage import Usage
from tool_gateway.results import Outcome


class Clock(Protocol):
    """The only source of time and of fresh names."""

    def now_ms(self) -> int:
        """Return the epoch time in milliseconds."""
        ...

    def elapsed_ms(self) -> int:
        """Return a monotonic reading in milliseconds."""
        ...

    def fresh(self, prefix: str) -> str:
        """Return a new unique id that begins with `prefix` and an underscore."""
        ...


class Ledger(Protocol):
    """Where budgets are held and calls are recorded.

    Every method may raise LedgerUnavailableError or LedgerOverloadedError; forward, settle
    and release also HoldEndedError, when the hold was ended before.
    """

    async def admit(self, request: AdmissionRequest) -> Reserved | Denied | Replayed | KeyReused:
        """Hold the estimate on every budget of the chain, or say why not."""
        ...

    async def forward(self, reservation_id: ReservationId) -> Denied | None:
        """Mark the hold before the first upstream byte, or say why nothing may leave any more."""
        ...

    async def settle(
        self, reservation_id: ReservationId, usage: Usage, record: CallRecord
    ) -> Settled:
        """End the hold with what was used and keep the record, in one transaction."""
        ...

    async def release(self, reservation_id: ReservationId, record: CallRecord) -> Released:
        """End the hold of a call that consumed nothing."""
        ...

    async def record(self, record: CallRecord) -> None:
        """Keep the record of a call that was denied."""
        ...

    async def replay_of(self, call_id: CallId) -> ArchiveId | None:
        """Return where the outcome of an ended call is kept, None while it runs or if it is not."""
        ...

    async def charged_to(self, session: SessionId) -> Amounts:
        """Return what the session's calls that ended were charged."""
        ...

    async def standing(self, chain: ScopeChain, *, now_ms: int) -> tuple[Mapping[str, object], ...]:
        """Return how every budget of the chain stands, in the JSON of the admin API."""
        ...


class ApprovalDesk(Protocol):
    """Where questions to people are kept, each with its one answer.

    Every method may raise LedgerUnavailableError or LedgerOverloadedError.
    """

    async def open(self, approval: Approval, *, hold_expires_at_ms: int) -> Approval:
        """Ask and keep the hold; return what is asked now, which may be an earlier approval."""
        ...

    async def find(self, asked: Asked, *, now_ms: int) -> Approval | None:
        """Return the question that stands, open or answered: a no as long as it could have."""
        ...

    async def get(self, approval_id: ApprovalId) -> Approval:
        """Return an approval that was opened."""
        ...

    async def take(
        self, approval_id: ApprovalId, *, now_ms: int, hold_expires_at_ms: int
    ) -> Reserved | Approval | Denied:
        """Use a yes, once, and return its hold, else why there is none."""
        ...

    async def withdraw(self, approval_id: ApprovalId, *, now_ms: int) -> Approval:
        """Give up a question that nobody has answered; return how it stands now."""
        ...

    async def expire_due(self, *, now_ms: int) -> int:
        """Give up what nobody answered or used in time; return how many those were."""
        ...

    async def given_up_with_a_hold(self) -> tuple[Approval, ...]:
        """Return the questions that are over while their hold is still kept."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """A result that was put away whole."""

    archive_id: ArchiveId
    sha256: str
    total_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Part of an archived result, checked against its hash."""

    content: bytes
    offset: int
    total_bytes: int
    sha256: str


class ResultArchive(Protocol):
    """Where results that are too large for the model are kept whole."""

    async def put(
        self, content: bytes, *, chain: ScopeChain, call_id: CallId, media_type: str, now_ms: int
    ) -> Archived:
        """Keep `content` for the agent of `chain`."""
        ...

    async def read(
        self, archive_id: ArchiveId, *, chain: ScopeChain, offset: int, length: int
    ) -> Slice:
        """Return a range of bytes.

        Raises:
            ArchiveMissError: there is no such index, or it is another agent's.
            ArchiveDamagedError: the stored bytes do not match their hash.
        """
        ...


@dataclass(slots=True)
class Meter:
    """What a backend has measured of a call so far: it stands if the call is cut off."""

    usage: Usage | None = None


class Backend(Protocol):
    """Whatever runs a call: an upstream MCP server, a local command, a built-in."""

    @property
    def name(self) -> str:
        """Return the name that call records carry."""
        ...

    @property
    def unmeasurable(self) -> Mapping[Unit, str]:
        """Return the units that this backend cannot measure, each with the reason."""
        ...

    def isolation_for(self, call: ToolCall, limits: ExecutionLimits) -> Isolated | None:
        """Return what would stand around the call; None where nothing local runs."""
        ...

    async def run(self, call: ToolCall, limits: ExecutionLimits, meter: Meter) -> Outcome:
        """Run the call; what is measured on the way is noted on `meter`.

        Raises:
            UpstreamNotReachedError: provably nothing was sent.
            UpstreamFailedError: the call was sent and no answer came back.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One local command; `cwd` None means the configured working directory."""

    argv: tuple[str, ...]
    cwd: str | None
    env: Mapping[str, str]
    stdin: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandOutcome:
    """How a local command ended; `explanation` is for the model, `notes` for the record."""

    status: CallStatus
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    explanation: str
    usage: Usage
    isolated: Isolated
    notes: tuple[str, ...] = ()


class CommandRunner(Protocol):
    """Runs a local command in a domain of its own."""

    @property
    def unmeasurable(self) -> Mapping[Unit, str]:
        """Return the units that this host cannot measure, each with the reason."""

    def isolation_for(self, limits: ExecutionLimits, *, cwd: str | None) -> Isolated:
        """Return what would stand around a command with these limits."""

    async def run(
        self,
        name: str,
        command: Command,
        limits: ExecutionLimits,
        meter: Meter,
        *,
        chain: ScopeChain,
        priority: Priority,
    ) -> CommandOutcome:
        """Run the command, once there is room; its tree is gone when this returns.

        Raises:
            UpstreamNotReachedError: the command could not be started.
        """


class CommandFreezer(Protocol):
    """Lets the processes of a local command stand still, and go on."""

    async def freeze(self, name: str) -> bool:
        """Freeze the command of that name; tell whether there is one.

        Raises:
            UpstreamFailedError: the machine refused.
        """

    async def thaw(self, name: str) -> bool:
        """Let the command of that name go on; tell whether there is one.

        Raises:
            UpstreamFailedError: the machine refused.
        """


class SessionNaming(Protocol):
    """Turns an agent's own name for a session into an id that no other agent can name."""

    def __call__(self, agent: PrincipalId, name: str) -> SessionId:
        """Return the id; the same agent and name always give the same one."""
        ...


class SessionLineage(Protocol):
    """Knows which session was carved out of which."""

    async def __call__(self, session: SessionId, *, above: SessionId) -> bool:
        """Tell whether `session` was carved out of `above`, or out of what was.

        Raises:
            LedgerUnavailableError: nobody can say.
        """
        ...


class SessionPausing(Protocol):
    """Where a session is stopped until an administrator has looked at it."""

    async def pause(self, session: SessionId, *, now_ms: int) -> bool:
        """Have the ledger deny every call of the session; False if it does so already.

        Raises:
            LedgerUnavailableError: that cannot be kept, so the session goes on.
            LedgerOverloadedError: as above.
        """


class SubSessionStore(Protocol):
    """Where sub-sessions are carved out of a session's budgets and given back.

    Every method may raise LedgerUnavailableError or LedgerOverloadedError.
    """

    async def spawn(self, parent: ScopeChain, *, name: str, limits: Amounts) -> ScopeChain | Denied:
        """Return the sub-session's chain, or why it was not carved out.

        Raises:
            SubSessionRefusedError: there is such a session, or it would stand too deep.
        """

    async def close(self, above: ScopeChain, *, name: str) -> Amounts:
        """Close a session below `above` and return what came back.

        Raises:
            SubSessionRefusedError: there is no such session below.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A tool call that went well, as far as it tells which tool helped.

    Of a search there are its `words`, where records keep them, and the tools that it `found`.
    """

    tenant: TenantId
    session: SessionId
    tool: str
    ended_at_ms: int
    words: str = ""
    found: tuple[str, ...] = ()


class UseHistory(Protocol):
    """Where it is kept which tools were called with success."""

    async def latest(self, *, calls_max: int, with_words_of: str) -> tuple[PastCall, ...]:
        """Return the latest calls in the order of their ends, with the words of one tool's.

        Raises:
            LedgerUnavailableError: the records cannot be read now.
        """
        ...


class PolicySource(Protocol):
    """Where the policy in force is asked for, at each call."""

    def __call__(self) -> Policy:
        """Return the policy in force."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnsKnown:
    """What is stored of a session's turns; `task_class` None before the session began.

    `prints` are its tool calls in order; those from `fresh_from` on came after its last extension.
    `model_turn` is the turn of its last request for a model.
    """

    task_class: TaskClass | None = None
    mode: TurnMode = TurnMode.UNLIMITED
    base: int | None = None
    extended: int = 0
    extensions: int = 0
    turns: tuple[TurnId, ...] = ()
    prints: tuple[CallPrint, ...] = ()
    fresh_from: int = 0
    cost_microusd: int = 0
    model_turn: TurnId | None = None


class TurnStore(Protocol):
    """Where sessions' turns, extensions and outcomes are kept.

    Every method may raise LedgerUnavailableError or LedgerOverloadedError.
    """

    async def known(self, session: SessionId) -> TurnsKnown:
        """Return what is stored of a session, of one that is new nothing."""
        ...

    async def history(
        self, *, tenant: TenantId, task_class: TaskClass
    ) -> tuple[FinishedSession, ...]:
        """Return the latest finished sessions of a class."""
        ...

    async def begin(
        self,
        chain: ScopeChain,
        *,
        task_class: TaskClass,
        mode: TurnMode,
        base: int | None,
        now_ms: int,
    ) -> None:
        """Keep what a session begins with."""
        ...

    async def extend(self, chain: ScopeChain, *, turns: int, reason: str, now_ms: int) -> None:
        """Keep that the session was given more turns, in its agent's name."""
        ...

    async def mark_cut(self, session: SessionId) -> None:
        """Keep that the session was denied a turn."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowKnown:
    """What is stored of what a session has seen, and of what its user said.

    `root` is the session that it is stored under; `is_settled` says that this stays so.
    """

    root: SessionId
    is_settled: bool = True
    marks: Mapping[Label, ToolName] = field(default_factory=dict)
    words: str | None = None
    task_class: TaskClass | None = None


class FlowStore(Protocol):
    """Where it is kept what sessions have seen.

    Every method may raise LedgerUnavailableError or LedgerOverloadedError.
    """

    async def known(self, session: SessionId) -> FlowKnown:
        """Return what is stored of a session and those above it."""
        ...

    async def mark(self, root: SessionId, labels: Mapping[Label, ToolName], *, now_ms: int) -> None:
        """Keep what a session has seen, each label with the tool that showed it."""
        ...

    async def say(
        self,
        root: SessionId,
        words: str,
        *,
        words_from: str,
        task_class: TaskClass | None,
        now_ms: int,
    ) -> bool:
        """Keep the user's words; False where there are some, or others were heard before."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestKnown:
    """What was approved of an upstream; `revision` counts how often."""

    revision: int
    tools: Mapping[str, Mapping[str, object]]
    approved_at_ms: int
    approved_by: str


class ManifestStore(Protocol):
    """Where the approved manifests are kept.

    Every method may raise LedgerUnavailableError or LedgerOverloadedError.
    """

    async def all(self) -> Mapping[UpstreamName, ManifestKnown]:
        """Return what was approved of each upstream."""
        ...

    async def approve(
        self,
        upstream: UpstreamName,
        tools: Mapping[str, Mapping[str, object]],
        *,
        expected_revision: int,
        by: str,
    ) -> ManifestKnown | None:
        """Keep what is approved; None where something else was approved since."""
        ...
