"""Whether a caller may have a tool: by its rule, by who asks, by approval, by what it changes."""

from collections.abc import Mapping

from governor.access import Offer
from governor.denial import Denied
from governor.ids import PrincipalId, TenantId
from governor.policy import Policy, ToolRule
from tool_gateway.answering import ANSWER
from tool_gateway.catalog import ToolEntry
from tool_gateway.denials import access_denied, policy_denied, quarantined, read_only

_BY_REQUEST = (
    "this request may only read, for it says Flyball-Read-Only or its access token lacks the "
    "scopes to write"
)


def refusal_of(
    entry: ToolEntry,
    rule: ToolRule,
    *,
    policy: Policy,
    tenant: TenantId,
    agent: PrincipalId,
    is_read_only: bool,
) -> Denied | None:
    """Return why a caller may not have a tool; None where it may.

    What is kept from a caller is refused before anything else is said of it; whoever relays
    resources and prompts asks for those by their own names. `is_read_only`
    is the wish of the request; rules can demand the same.
    """
    if not rule.allow:
        return policy_denied(rule.name, entry.exposed)
    access = policy.access
    if access.rules and entry.is_tool:
        keeping = access.refusing(
            Offer.TOOL, entry.exposed, tenant=tenant, agent=agent, is_own=entry.is_own
        )
        if keeping is not None:
            return access_denied(keeping.name, entry.exposed)
    if entry.is_kept_out:
        return quarantined(entry.exposed, upstream=entry.backend)
    demanding = access.read_only_by(tenant=tenant, agent=agent) if access.rules else None
    if (is_read_only or demanding is not None) and not _only_reads(entry, rule):
        why = _BY_REQUEST if demanding is None else f"you may only read (rule {demanding.name!r})"
        return read_only(entry.exposed, why=why)
    return None


def is_open(
    entry: ToolEntry,
    *,
    policy: Policy,
    tenant: TenantId,
    agent: PrincipalId,
    is_read_only: bool,
) -> bool:
    """Tell whether a caller may have a tool, so that it is shown."""
    rule = open_rule(entry, policy=policy, tenant=tenant, agent=agent, is_read_only=is_read_only)
    return rule is not None


def open_rule(
    entry: ToolEntry,
    *,
    policy: Policy,
    tenant: TenantId,
    agent: PrincipalId,
    is_read_only: bool,
) -> ToolRule | None:
    """Return the rule by which a caller may have a tool; None where it may not."""
    rule = policy.rule_for(tool=entry.exposed, tenant=tenant, agent=agent, is_own=entry.is_own)
    refusal = refusal_of(
        entry, rule, policy=policy, tenant=tenant, agent=agent, is_read_only=is_read_only
    )
    return rule if refusal is None else None


def _only_reads(entry: ToolEntry, rule: ToolRule) -> bool:
    """Tell whether a tool is known to change nothing in the world.

    A server's own word counts where an administrator, or the first use, has approved it: what
    is not pinned could be called anything at the next list.
    """
    if rule.reads_only:
        return True
    annotations = entry.definition.get("annotations")
    hint = annotations.get("readOnlyHint") if isinstance(annotations, Mapping) else None
    if entry.is_own:
        # Sub-sessions and more turns change what may be spent. A puzzle only opens what its
        # caller may have anyway, and whatever one of ours calls is judged by itself.
        return hint is not False or entry.exposed == ANSWER
    return entry.is_approved and hint is True
