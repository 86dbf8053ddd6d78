"""The tables of who may have what, and the access rules that they stand for."""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from governor.access import Access, AccessRule, Choice
from runtime.configuration.table import Flag, Name, Table

_Pattern = Annotated[str, Field(min_length=1, max_length=200)]
_Patterns = Annotated[tuple[_Pattern, ...], Field(max_length=1_000)]


class AccessTable(Table):
    """What the callers that match may have; every table that covers a caller holds."""

    name: Name
    tenant: str = "*"
    agent: str = "*"
    tools: _Patterns | None = None
    deny_tools: _Patterns = ()
    # Of resources the names of upstreams: a URI says nothing of whose it is.
    resources: _Patterns | None = None
    deny_resources: _Patterns = ()
    prompts: _Patterns | None = None
    deny_prompts: _Patterns = ()
    read_only: Flag = False


def access_of(tables: Sequence[AccessTable]) -> Access:
    """Return the access rules of the file."""
    return Access(
        rules=tuple(
            AccessRule(
                name=table.name,
                tenant=table.tenant,
                agent=table.agent,
                tools=Choice(allow=table.tools, deny=table.deny_tools),
                resources=Choice(allow=table.resources, deny=table.deny_resources),
                prompts=Choice(allow=table.prompts, deny=table.deny_prompts),
                is_read_only=table.read_only,
            )
            for table in tables
        )
    )
