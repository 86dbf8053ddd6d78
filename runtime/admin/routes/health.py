"""Health and metrics, for probes and scrapers that hold no token."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Literal

import anyio
from fastapi import APIRouter, Request, Response

from runtime.admin.context import Parts
from runtime.admin.openapi import problems
from runtime.admin.shapes.fields import Out
from runtime.failures import UNAVAILABLE, Problem, ProblemError

ROUTES = APIRouter(tags=["health"])

_CHECK_SECONDS_MAX = 5.0
_OPENMETRICS = "application/openmetrics-text"


class AliveOut(Out):
    """The process answers."""

    status: Literal["alive"]


class ReadyOut(Out):
    """Every part answers."""

    status: Literal["ready"]


@ROUTES.get("/healthz", summary="Tell whether the process is alive")
async def read_health() -> AliveOut:
    """Return at once, whatever state the other parts are in."""
    return AliveOut(status="alive")


@ROUTES.get("/readyz", summary="Tell whether calls can be served", responses=problems(503))
async def read_readiness(parts: Parts) -> ReadyOut:
    """Return if every part is ready, else say which are not."""
    try:
        with anyio.fail_after(_CHECK_SECONDS_MAX):
            unready = await parts.readiness()
    except TimeoutError:
        unready = (f"no answer within {_CHECK_SECONDS_MAX:.0f} s",)
    if unready:
        raise ProblemError(_not_ready(unready))
    return ReadyOut(status="ready")


@ROUTES.get("/metrics", summary="Read the metrics", response_class=Response)
async def read_metrics(parts: Parts, request: Request) -> Response:
    """Return the metrics in Prometheus' text format, or in that of OpenMetrics, with exemplars."""
    content, media_type = parts.metrics(
        openmetrics=_OPENMETRICS in request.headers.get("accept", "").lower()
    )
    return Response(content, headers={"Content-Type": media_type})


def _not_ready(unready: Sequence[str]) -> Problem:
    return Problem(
        status=HTTPStatus.SERVICE_UNAVAILABLE,
        code=UNAVAILABLE,
        title="Not ready",
        detail="; ".join(unready),
        members={"problems": list(unready)},
    )
