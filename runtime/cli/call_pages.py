"""Calls as the admin API lists them, page by page."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

import httpx

from governor.call import CallStatus
from governor.target import CallKind
from memory_store.paging import PAGE_LIMIT_MAX
from runtime.cli.admin_api import asked
from runtime.cli.moments import add_period

PATH = "/admin/v1/calls"
_FILTERS = ("tenant", "agent", "session", "name", "kind", "status")


def add_filters(parser: argparse.ArgumentParser) -> None:
    """Add which calls are wanted."""
    parser.add_argument("--tenant", help="only of this tenant")
    parser.add_argument("--agent", help="only of this agent")
    parser.add_argument("--session", metavar="ID", help="only of this session (`ses_…`)")
    parser.add_argument("--name", help="only of this tool, or of this model")
    for name, known in (("kind", CallKind), ("status", CallStatus)):
        values = [value.value for value in known]
        parser.add_argument(
            f"--{name}",
            choices=values,
            metavar=name.upper(),
            help=f"only of this {name}: {', '.join(values)}",
        )
    add_period(parser)


def filters_of(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return which calls are wanted, as the admin API is asked."""
    wanted = {name: getattr(arguments, name) for name in _FILTERS}
    wanted |= {"since_ms": arguments.since, "until_ms": arguments.until}
    return {name: value for name, value in wanted.items() if value is not None}


def pages(
    client: httpx.Client, filters: Mapping[str, Any], *, limit: int | None = None
) -> Iterator[tuple[list[dict[str, Any]], str | None]]:
    """Yield pages of calls, the one that ended last first, with what follows each.

    Raises:
        RuntimeFaultError: no sidecar answers, or it refuses.
    """
    left, cursor = limit, ""
    while left is None or left > 0:
        size = PAGE_LIMIT_MAX if left is None else min(left, PAGE_LIMIT_MAX)
        more = {"cursor": cursor} if cursor else {}
        page = asked(client, "GET", PATH, params={**filters, **more, "limit": size})
        yield page["items"], page["next"]
        if page["next"] is None:
            return
        cursor = page["next"]
        left = None if left is None else left - len(page["items"])
