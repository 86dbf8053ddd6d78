"""The table of `flyball.toml` about lists of tools, and what the gateway gets of it."""

from typing import Annotated

from pydantic import Field

from runtime.configuration.content import ContentTable
from runtime.configuration.table import Table
from tool_gateway.discovery.listing import ListRule, ListTerms

# 1,000 tools of 200 tokens each; below 300 not even the tools that find others would fit.
_Tokens = Annotated[int, Field(strict=True, ge=300, le=10_000_000)]
_Pattern = Annotated[str, Field(min_length=1, max_length=200)]


class ListRuleTable(Table):
    """How long a list the callers get that match; the first that covers a caller governs."""

    tenant: str = "*"
    agent: str = "*"
    list_tokens_max: _Tokens | None = None


class ToolsTable(ContentTable):
    """How much of a model's context the list of tools may take, and what stays in it.

    What it says of the content of calls goes for every rule that does not say it itself.
    """

    list_tokens_max: _Tokens | None = None
    keep: Annotated[tuple[_Pattern, ...], Field(max_length=100)] = ("memory_read", "governor_*")
    list_rule: Annotated[tuple[ListRuleTable, ...], Field(max_length=1_000)] = ()


def list_terms_of(table: ToolsTable) -> ListTerms:
    """Return how long callers' lists may be."""
    return ListTerms(
        tokens_max=table.list_tokens_max,
        keep=table.keep,
        rules=tuple(
            ListRule(tenant=rule.tenant, agent=rule.agent, tokens_max=rule.list_tokens_max)
            for rule in table.list_rule
        ),
    )
