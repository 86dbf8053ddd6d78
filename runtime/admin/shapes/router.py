"""The router, its models and its log as JSON."""

import base64
import binascii
import json
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from governor.learning.verdict import Source
from governor.tiers import ModelTier
from memory_store.paging import PAGE_LIMIT_MAX
from memory_store.router_log import LoggedDecision
from memory_store.router_models import RouterModelView, RouterStanding
from runtime.admin.shapes.fields import EpochMs, Label, Out, Paging, Shape
from runtime.errors import RouterModelError
from runtime.router.desk import ROWS_MAX, RouterStatus
from runtime.router.foretold import Foretold

# Not strict: what stands behind a question mark is text.
_Since = Annotated[int, Field(ge=0, le=2**53)]


class ReportIn(Shape):
    """What an answer was worth, by an administrator: 0 is useless, 1 as good as can be."""

    call_id: Label
    score: Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
    source: Source


class ReportOut(Out):
    """What was taken."""

    call_id: str
    score: float
    source: Source


class ModelIn(Shape):
    """A model that was trained elsewhere, with what its training said of it."""

    content_base64: Annotated[str, Field(min_length=4)]
    learned_until_ms: EpochMs
    evidence: dict[str, Any] = Field(default_factory=dict)

    @property
    def content(self) -> bytes:
        """Return the model.

        Raises:
            RouterModelError: it is no base64.
        """
        try:
            return base64.b64decode(self.content_base64, validate=True)
        except (binascii.Error, ValueError) as error:
            raise RouterModelError("content_base64: expected base64") from error


class Since(Shape):
    """From when on the log is looked at, and at how many of the latest rated choices."""

    since_ms: _Since = 0
    rows: Annotated[int, Field(ge=1, le=ROWS_MAX)] = ROWS_MAX


class DecisionFilters(Paging):
    """Which choices are wanted; `rated` are those of which somebody said what they were worth."""

    since_ms: _Since = 0
    rated: bool = False
    limit: Annotated[int, Field(ge=1, le=PAGE_LIMIT_MAX)] = 50


class ModelOut(Out):
    """A model; `before` is what it took the place of, null the tier rules."""

    version: str
    state: str
    parent: str | None
    before: str | None
    checksum: str
    learned_until_ms: int
    evidence: dict[str, Any]
    created_at_ms: int
    created_by: str
    changed_at_ms: int


class InForceOut(Out):
    """What is in force; null are the tier rules."""

    incumbent: str | None
    candidate: str | None
    revision: int
    evidence: dict[str, Any] | None = None


class RouterOut(Out):
    """How the router stands: what is in force, and what it has learned of each tier."""

    mode: str
    objective: str
    price_per_microusd: float
    explore_share: float
    influence_per_day: float
    incumbent: str | None
    candidate: str | None
    is_usable: Annotated[
        bool, Field(description="false: what is in force cannot be read; the tier rules decide")
    ]
    learned_revision: int
    last_drift_at_ms: int | None
    capped: int
    tiers: list[dict[str, Any]]


class CalibrationOut(Out):
    """How what models expected of answers compares with what the answers were worth."""

    n: int
    unforetold: Annotated[
        int, Field(description="rated answers whose tiers the rules chose, expecting nothing")
    ]
    error: Annotated[
        float | None, Field(description="by how much forecasts are off on average; null: none yet")
    ]
    bins: list[dict[str, Any]]


class DecisionOut(Out):
    """One choice; `options` are what was expected of each tier, and how probable it was."""

    call_id: str
    decided_at_ms: int
    tenant: str
    agent: str
    session: str
    task_class: str | None
    policy: str
    model: str | None
    tier: str
    propensity: float
    explored: bool
    price: float
    options: list[list[Any]]
    features_base64: str
    shadow_model: str | None
    shadow_tier: str | None
    status: str | None
    cost_microusd: int | None
    output_tokens: int | None
    latency_ms: int | None
    score: float | None
    weight: float
    is_trusted: bool


def model_out(view: RouterModelView) -> ModelOut:
    """Return a model as JSON."""
    return ModelOut(
        version=view.version,
        state=view.state,
        parent=view.parent,
        before=view.before,
        checksum=view.checksum,
        learned_until_ms=view.learned_until_ms,
        evidence=json.loads(view.evidence),
        created_at_ms=view.created_at_ms,
        created_by=view.created_by,
        changed_at_ms=view.changed_at_ms,
    )


def in_force_out(standing: RouterStanding, evidence: dict[str, object] | None = None) -> InForceOut:
    """Return what is in force as JSON."""
    return InForceOut(
        incumbent=standing.incumbent,
        candidate=standing.candidate,
        revision=standing.revision,
        evidence=evidence,
    )


def calibration_out(found: Foretold) -> CalibrationOut:
    """Return forecasts beside what came as JSON."""
    return CalibrationOut.model_validate(found.shape())


def router_out(status: RouterStatus, *, tiers: Sequence[ModelTier] = ()) -> RouterOut:
    """Return how the router stands as JSON; `tiers` are the configured ones with their prices."""
    now, terms = status.now, status.terms
    configured = {str(tier.name): tier for tier in tiers}
    learned = now.learned
    return RouterOut(
        mode=terms.mode.value,
        objective=terms.objective.value,
        price_per_microusd=terms.price,
        explore_share=terms.explore_share,
        influence_per_day=terms.online.influence_per_day,
        incumbent=now.standing.incumbent,
        candidate=now.standing.candidate,
        is_usable=now.standing.incumbent is None or now.incumbent is not None,
        learned_revision=now.standing.learned_revision,
        last_drift_at_ms=None if learned is None else learned.last_drift_at_ms,
        capped=0 if learned is None else learned.capped,
        tiers=[{**tier, **_served(configured.get(str(tier["tier"])))} for tier in status.tiers],
    )


def _served(tier: ModelTier | None) -> dict[str, object]:
    """Return which model serves a tier at which price; null where it is not configured now."""
    price = None if tier is None else tier.price
    return {
        "provider": None if tier is None else tier.provider,
        "model": None if tier is None else tier.model,
        "input_microusd_per_mtok": None if price is None else price.input_microusd_per_mtok,
        "output_microusd_per_mtok": None if price is None else price.output_microusd_per_mtok,
    }


def decision_out(logged: LoggedDecision) -> DecisionOut:
    """Return a choice as JSON."""
    decision, end, verdict = logged.decision, logged.end, logged.verdict
    return DecisionOut(
        call_id=decision.call_id,
        decided_at_ms=decision.decided_at_ms,
        tenant=decision.tenant,
        agent=decision.agent,
        session=decision.session,
        task_class=decision.task_class,
        policy=decision.policy,
        model=decision.model,
        tier=decision.tier,
        propensity=decision.propensity,
        explored=decision.explored,
        price=decision.price,
        options=json.loads(decision.options),
        features_base64=base64.b64encode(decision.features).decode(),
        shadow_model=decision.shadow_model,
        shadow_tier=decision.shadow_tier,
        status=None if end is None else end.status,
        cost_microusd=None if end is None else end.cost_microusd,
        output_tokens=None if end is None else end.output_tokens,
        latency_ms=None if end is None else end.latency_ms,
        score=None if verdict is None else verdict.score,
        weight=0.0 if verdict is None else verdict.weight,
        is_trusted=verdict is not None and verdict.is_trusted,
    )
