"""The router of model tiers: its models, its log, and what the log says of them."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Path, Query

from governor.ids import CallId
from runtime.admin.auth import By
from runtime.admin.context import Parts
from runtime.admin.openapi import WITH_BODY, governed_routes, problems
from runtime.admin.shapes.fields import Page, page_of, whole_page
from runtime.admin.shapes.router import (
    CalibrationOut,
    DecisionFilters,
    DecisionOut,
    InForceOut,
    ModelIn,
    ModelOut,
    ReportIn,
    ReportOut,
    RouterOut,
    Since,
    calibration_out,
    decision_out,
    in_force_out,
    model_out,
    router_out,
)
from runtime.router.feedback import Report

ROUTES = governed_routes("/router", tag="router")

Version = Annotated[str, Path(pattern=r"^[0-9a-f]{12}$")]


@ROUTES.get("", summary="Read how the router stands")
async def read_router(parts: Parts) -> RouterOut:
    """Return what is in force, and what was learned of each tier, with what it costs."""
    found = await parts.prices.refresh()
    tiers = [tier.priced_by(found.prices) for tier in parts.tiers()]
    return router_out(await parts.router.status(), tiers=tiers)


@ROUTES.get("/models", summary="List router models")
async def list_models(parts: Parts) -> Page[ModelOut]:
    """Return the models, the latest first."""
    return whole_page(model_out(view) for view in await parts.router.models())


@ROUTES.get("/models/{version}", summary="Read a router model", responses=problems(404))
async def read_model(parts: Parts, version: Version) -> ModelOut:
    """Return what is known of a model."""
    return model_out(await parts.router.model(version))


@ROUTES.post(
    "/models",
    summary="Add a router model",
    status_code=HTTPStatus.CREATED,
    responses=problems(409) | WITH_BODY,
)
async def add_model(parts: Parts, by: By, asked: ModelIn) -> ModelOut:
    """Keep a model as a candidate; it decides in the shadow until it is promoted."""
    view = await parts.router.add(
        asked.content,
        learned_until_ms=asked.learned_until_ms,
        evidence=asked.evidence,
        by=by,
    )
    return model_out(view)


@ROUTES.post(
    "/models/{version}/promote",
    summary="Put a router model in force",
    responses=problems(404, 409, 412),
)
async def promote_model(parts: Parts, by: By, version: Version) -> InForceOut:
    """Put a model in force if it is better than what is, by what was rated since its training."""
    standing, evidence = await parts.router.promote(version, by=by)
    return in_force_out(standing, evidence.shape())


@ROUTES.post("/rollback", summary="Put in force what was before", responses=problems(404, 412))
async def roll_back(parts: Parts, by: By) -> InForceOut:
    """Go back to the model before the one in force, at the end to the tier rules."""
    return in_force_out(await parts.router.rollback(by=by))


@ROUTES.get("/decisions", summary="List choices of tiers")
async def list_decisions(
    parts: Parts, filters: Annotated[DecisionFilters, Query()]
) -> Page[DecisionOut]:
    """Return choices, the latest first, as models are trained from them."""
    found = await parts.router.decisions(
        since_ms=filters.since_ms,
        is_rated=filters.rated,
        cursor=filters.cursor,
        limit=filters.limit,
    )
    return page_of(found, decision_out)


@ROUTES.get("/evaluation", summary="Evaluate ways to choose by the log")
async def evaluate(parts: Parts, since: Annotated[Since, Query()]) -> dict[str, Any]:
    """Return what other ways to choose would have earned, with intervals."""
    return (await parts.router.evaluate(since_ms=since.since_ms, rows=since.rows)).shape()


@ROUTES.get("/advice", summary="Say which tiers are worth having")
async def advise(parts: Parts, since: Annotated[Since, Query()]) -> dict[str, Any]:
    """Return the Pareto set of the tiers and which ones others are better than."""
    return (await parts.router.advise(since_ms=since.since_ms, rows=since.rows)).shape()


@ROUTES.get("/calibration", summary="Compare what was expected of answers with what came")
async def read_calibration(parts: Parts, since: Annotated[Since, Query()]) -> CalibrationOut:
    """Return the forecasts of rated answers in bins, each with what the answers were worth."""
    return calibration_out(await parts.router.calibration(since_ms=since.since_ms, rows=since.rows))


@ROUTES.post(
    "/outcomes", summary="Say what an answer was worth", responses=problems(404) | WITH_BODY
)
async def report(parts: Parts, by: By, asked: ReportIn) -> ReportOut:
    """Keep what an administrator says of a call; it overrides what its agent says."""
    said = Report(call_id=CallId(asked.call_id), score=asked.score, source=asked.source)
    await parts.feedback.hear_administrator(said, name=by.name)
    return ReportOut(call_id=said.call_id, score=said.score, source=said.source)
