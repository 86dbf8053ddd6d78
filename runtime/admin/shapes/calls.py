"""Call records as JSON."""

from typing import Annotated

from pydantic import Field

from governor.amounts import Unit
from governor.call import CallStatus, Enforcement, Isolated
from governor.curve import cpu_millis
from governor.denial import DenialReason
from governor.ids import ArchiveId, CallId, PrincipalId, SessionId, TenantId, TurnId
from governor.target import CallKind
from governor.unified_cost import UnifiedPrices
from governor.usage import Usage
from memory_store.archive import SLICE_BYTES_MAX, ArchiveSlice
from memory_store.calls import CallCurve, CallView
from runtime.admin.shapes.fields import EPOCH_MS_MAX, Out, Paging, Shape, limits_shape

Moment = Annotated[int, Field(ge=0, le=EPOCH_MS_MAX)]
_NO_CURVE = (
    "no command of this call was sampled: it ran none of its own, was denied before it began, or "
    "ended before curves were kept"
)


class CallFilters(Paging):
    """Which calls are wanted; of a period, those that ended in it."""

    tenant: TenantId | None = None
    session: SessionId | None = None
    agent: PrincipalId | None = None
    status: CallStatus | None = None
    denial: Annotated[DenialReason | None, Field(description="only calls denied for this")] = None
    name: str | None = None
    kind: CallKind | None = None
    since_ms: Annotated[Moment | None, Field(description="not those that ended before")] = None
    until_ms: Annotated[Moment | None, Field(description="only those that ended before")] = None


class UsageOut(Out):
    """What was measured; `unmeasured` gives the reason for each unit that was not.

    The units in `estimated` were measured by way of something else.
    """

    measured: dict[Unit, int]
    estimated: list[Unit]
    unmeasured: dict[Unit, str]
    memory_peak_bytes: int | None


class IsolatedOut(Out):
    """What stood around a local command while it ran."""

    enforcement: Enforcement
    contained: bool
    by: str
    why: str
    energy_by: str


class CallOut(Out):
    """A call that ended; `usage` is null where nothing was reported.

    Of a call that expired, because its sidecar died, little is known: `arguments`, `rule`
    and `policy_version` are null then.

    `unified_cost_microusd` is the charged money with the policy's price for tool calls and
    processor time, at the prices of today.
    """

    id: CallId
    kind: CallKind
    name: str
    tenant: TenantId
    agent: PrincipalId
    session: SessionId
    turn: TurnId | None
    status: CallStatus
    denial: DenialReason | None
    detail: str
    started_at_ms: int
    ended_at_ms: int
    arguments: str | None
    backend: str
    rule: str | None
    policy_version: str | None
    price_version: str | None = Field(
        description="of a model call: which version of the price list, or of the file, priced it"
    )
    usage_source: str | None = Field(
        description="of a model call, who counted its tokens: the `provider`, the tier's "
        "`tokenizer`, the bytes as a `bound` that is never too low, or what was `held`"
    )
    estimate: dict[Unit, int]
    usage: UsageOut | None
    charged: dict[Unit, int]
    unified_cost_microusd: int
    isolated: IsolatedOut | None
    result_bytes: int | None
    archive: ArchiveId | None
    has_curve: bool = Field(
        description="of a local command: how its memory and processor time went is at `…/curve`"
    )


class ArchivedPart(Shape):
    """Which part of an archived result is wanted."""

    offset: Annotated[int, Field(ge=0, le=2**53)] = 0
    length: Annotated[int, Field(ge=1, le=SLICE_BYTES_MAX)] = SLICE_BYTES_MAX


class ArchivedOut(Out):
    """A part of a result as it was kept; bytes that are no UTF-8 show as replacements.

    It goes on at `next_offset` until that is null. `sha256` is that of the whole.
    """

    archive: ArchiveId
    media_type: str
    sha256: str
    total_bytes: int
    offset: int
    text: str
    next_offset: int | None


class CurvePointOut(Out):
    """How a local command stood so long after it began."""

    at_ms: int
    memory_bytes: int = Field(description="the most that was sampled since the point before")
    cpu_ms: int | None = Field(description="all processor time so far; null where nobody counts it")
    cpu_millis: int | None = Field(
        description="thousandths of a processor, on average since the point before"
    )


class CurveOut(Out):
    """How the memory and the processor time of a call went, in 120 points at the most.

    `points` is empty, and `why` says so, where no local command was sampled. `by` is what
    counted: the control groups of this host, or samples of the process tree. Between two samples
    memory can rise and fall unseen; `memory_peak_bytes` is the peak that was counted for the
    whole of the call.
    """

    id: CallId
    name: str
    started_at_ms: int
    ended_at_ms: int
    memory_peak_bytes: int | None
    by: str | None
    why: str | None
    points: list[CurvePointOut]


def call_out(view: CallView, prices: UnifiedPrices) -> CallOut:
    """Return a call as it is shown."""
    record = view.record
    return CallOut(
        id=record.call_id,
        kind=record.kind,
        name=record.name,
        tenant=record.chain.tenant,
        agent=record.chain.agent,
        session=record.chain.session,
        turn=record.turn,
        status=record.status,
        denial=record.denial,
        detail=record.detail,
        started_at_ms=record.started_at_ms,
        ended_at_ms=record.ended_at_ms,
        arguments=record.arguments or None,
        backend=record.backend,
        rule=record.rule or None,
        policy_version=record.policy_version or None,
        price_version=record.price_version,
        usage_source=record.usage_source,
        estimate=limits_shape(record.estimate),
        usage=None if record.usage is None else _usage_out(record.usage),
        charged=limits_shape(view.charged),
        unified_cost_microusd=prices.cost_microusd(view.charged),
        isolated=None if record.isolated is None else _isolated_out(record.isolated),
        result_bytes=record.result_bytes,
        archive=record.archive_id,
        has_curve=view.has_curve,
    )


def archived_out(archive: ArchiveId, found: ArchiveSlice) -> ArchivedOut:
    """Return a part of an archived result as it is shown."""
    end = found.offset + len(found.content)
    return ArchivedOut(
        archive=archive,
        media_type=found.media_type,
        sha256=found.sha256,
        total_bytes=found.total_bytes,
        offset=found.offset,
        text=found.content.decode(errors="replace"),
        next_offset=end if found.content and end < found.total_bytes else None,
    )


def curve_out(found: CallCurve) -> CurveOut:
    """Return a call's curve as it is shown."""
    points = () if found.curve is None else found.curve.points
    rates = cpu_millis(points)
    return CurveOut(
        id=found.call_id,
        name=found.name,
        started_at_ms=found.started_at_ms,
        ended_at_ms=found.ended_at_ms,
        memory_peak_bytes=found.memory_peak_bytes,
        by=None if found.isolated is None else found.isolated.by,
        why=None if points else _NO_CURVE,
        points=[
            CurvePointOut(
                at_ms=point.at_ms,
                memory_bytes=point.memory_bytes,
                cpu_ms=point.cpu_ms,
                cpu_millis=rate,
            )
            for point, rate in zip(points, rates, strict=True)
        ],
    )


def _usage_out(usage: Usage) -> UsageOut:
    return UsageOut(
        measured=limits_shape(usage.measured),
        estimated=list(usage.estimated),
        unmeasured=dict(usage.unmeasured),
        memory_peak_bytes=usage.memory_peak_bytes,
    )


def _isolated_out(isolated: Isolated) -> IsolatedOut:
    return IsolatedOut(
        enforcement=isolated.enforcement,
        contained=isolated.contained,
        by=isolated.by,
        why=isolated.why,
        energy_by=isolated.energy_by,
    )
