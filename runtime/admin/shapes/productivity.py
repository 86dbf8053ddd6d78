"""Productivity as JSON: shares and prices worked out from counts."""

from typing import Annotated, Literal

from pydantic import Field

from governor.estimate import energy_mj
from governor.ids import PrincipalId, SessionId, TaskClass, TenantId
from memory_store.productivity import Figures, Grouping, ProductivityLine, SessionFacts
from runtime.admin.shapes.fields import EpochMs, Out, Paging

# What a core takes at work, about, where nobody said what it draws: it labels an estimate.
_MILLIWATTS_PER_CORE = 10_000


class ProductivityQuery(Paging):
    """Which lines are wanted."""

    by: Grouping
    tenant: TenantId | None = None
    agent: PrincipalId | None = None
    since_ms: Annotated[
        EpochMs | None, Field(strict=False, description="only calls that ended since")
    ] = None


class EnergyOut(Out):
    """Energy in millijoules, reckoned from processor time.

    `charged_estimate` is what the calls were charged, at `energy.watts_per_core`;
    `cpu_estimate` is their processor time at the same power, 10 W if it is not set, where they
    were charged none.
    """

    mj: int
    mj_per_session: float | None
    source: Literal["charged_estimate", "cpu_estimate"]


class FiguresOut(Out):
    """What calls brought and what they cost."""

    sessions: int
    tool_calls: Annotated[int, Field(description="tool calls that ran")]
    useful_results: Annotated[
        int, Field(description="successes with a result that their session had not seen")
    ]
    useful_share: Annotated[float | None, Field(description="useful_results / tool_calls")]
    solved_per_tool_call: Annotated[
        float | None,
        Field(description="tool productivity: solved sessions / tool calls; null: no outcome"),
    ]
    redundant_calls: Annotated[
        int, Field(description="same tool, arguments and result as before in the session")
    ]
    redundant_share: Annotated[float | None, Field(description="of the calls that ended")]
    cost_microusd: int
    attempts: Annotated[int, Field(description="sessions whose outcome was reported")]
    solved: int
    success_rate: float | None
    cost_of_pass_microusd: Annotated[
        int | None,
        Field(description="mean cost of an attempt / success rate; null: nothing was solved"),
    ]
    cpu_ms: int
    energy: EnergyOut


class SessionFactsOut(Out):
    """The session that a line is about."""

    id: SessionId
    tenant: TenantId
    agent: PrincipalId
    name: str
    task_class: TaskClass
    opened_at_ms: int
    closed_at_ms: int | None
    turns_used: int
    turns_limit: int | None
    success: bool | None


class ProductivityOut(FiguresOut):
    """One line: of a session, an agent, a tool or a task class."""

    key: str
    session: SessionFactsOut | None


def figures_out(figures: Figures, *, milliwatts_per_core: int | None) -> FiguresOut:
    """Return the figures with what follows from them."""
    is_charged = figures.energy_mj > 0
    milliwatts = milliwatts_per_core or _MILLIWATTS_PER_CORE
    mj = figures.energy_mj if is_charged else energy_mj(figures.cpu_ms, milliwatts)
    return FiguresOut(
        sessions=figures.sessions,
        tool_calls=figures.tool_calls,
        useful_results=figures.useful_results,
        useful_share=_share(figures.useful_results, figures.tool_calls),
        solved_per_tool_call=_share(figures.solved, figures.tool_calls)
        if figures.attempts
        else None,
        redundant_calls=figures.redundant_calls,
        redundant_share=_share(figures.redundant_calls, figures.comparable_calls),
        cost_microusd=figures.cost_microusd,
        attempts=figures.attempts,
        solved=figures.solved,
        success_rate=_share(figures.solved, figures.attempts),
        # (cost / attempts) / (solved / attempts), rounded up as every price is.
        cost_of_pass_microusd=-(-figures.attempts_cost_microusd // figures.solved)
        if figures.solved
        else None,
        cpu_ms=figures.cpu_ms,
        energy=EnergyOut(
            mj=mj,
            mj_per_session=_share(mj, figures.sessions),
            source="charged_estimate" if is_charged else "cpu_estimate",
        ),
    )


def productivity_out(line: ProductivityLine, *, milliwatts_per_core: int | None) -> ProductivityOut:
    """Return one line."""
    figures = figures_out(line.figures, milliwatts_per_core=milliwatts_per_core)
    session = None if line.session is None else _session_out(line.session)
    return ProductivityOut(**dict(figures), key=line.key, session=session)


def _session_out(facts: SessionFacts) -> SessionFactsOut:
    return SessionFactsOut(
        id=facts.session_id,
        tenant=facts.tenant,
        agent=facts.agent,
        name=facts.name,
        task_class=facts.task_class,
        opened_at_ms=facts.opened_at_ms,
        closed_at_ms=facts.closed_at_ms,
        turns_used=facts.turns_used,
        turns_limit=facts.turns_limit,
        success=facts.is_solved,
    )


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
