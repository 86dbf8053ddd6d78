"""Notices: thresholds, what observing budgets would have denied, denials, and approvals."""

from typing import Annotated

from fastapi import Query

from runtime.admin.context import Parts
from runtime.admin.openapi import governed_routes
from runtime.admin.shapes.fields import Page, page_of
from runtime.admin.shapes.notices import NoticeFilters, NoticeOut, notice_out

ROUTES = governed_routes("/notices", tag="notices")


@ROUTES.get("", summary="List notices")
async def list_notices(parts: Parts, filters: Annotated[NoticeFilters, Query()]) -> Page[NoticeOut]:
    """Return notices, the latest first."""
    found = await parts.store.notices.page(
        tenant=filters.tenant, cursor=filters.cursor, limit=filters.limit
    )
    return page_of(found, notice_out)
