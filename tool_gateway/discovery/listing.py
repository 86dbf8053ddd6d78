"""A list of tools cut to a number of tokens, by rules of the operator's."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from governor.ids import PrincipalId, TenantId
from tool_gateway.catalog import ToolEntry

_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ListRule:
    """How long a list the callers get that match; None is the whole list."""

    tokens_max: int | None
    tenant: str = "*"
    agent: str = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTerms:
    """How long lists may be; the first rule that covers a caller governs, else `tokens_max`.

    `keep` are patterns of names that stay in every list.
    """

    tokens_max: int | None = None
    keep: tuple[str, ...] = ()
    rules: tuple[ListRule, ...] = ()

    def tokens_for(self, tenant: TenantId, agent: PrincipalId) -> int | None:
        """Return how many tokens the caller's list may have, None for the whole list."""
        for rule in self.rules:
            if fnmatchcase(tenant, rule.tenant) and fnmatchcase(agent, rule.agent):
                return rule.tokens_max
        return self.tokens_max

    @property
    def cuts_any(self) -> bool:
        """Tell whether there is a caller whose list could be cut."""
        bounds = (self.tokens_max, *(rule.tokens_max for rule in self.rules))
        return any(bound is not None for bound in bounds)

    def keeps(self, name: str) -> bool:
        """Tell whether a tool stays in every list."""
        return any(fnmatchcase(name, pattern) for pattern in self.keep)


WHOLE_LIST = ListTerms()


def definition_of(entry: ToolEntry, *, with_output_schema: bool) -> dict[str, object]:
    """Return a tool as clients see it, under its exposed name."""
    definition = {**entry.definition, "name": entry.exposed}
    if not with_output_schema:
        definition.pop("outputSchema", None)
    return definition


def tokens_of(definition: Mapping[str, object]) -> int:
    """Return what a definition takes of a model's context: a quarter of its characters."""
    text = json.dumps(definition, separators=(",", ":"), ensure_ascii=False, default=str)
    return -(-len(text) // _CHARS_PER_TOKEN)


def chosen(
    sizes: Mapping[str, int],
    *,
    tokens_max: int,
    is_kept: Callable[[str], bool],
    ranked: Sequence[str],
) -> frozenset[str]:
    """Return the names that fit: the kept ones, then the ranked, then the others by name.

    What does not fit is passed over for what still does, so that one huge tool does not end
    the list. The kept ones stay even where they alone are too much.
    """
    kept = [name for name in sizes if is_kept(name)]
    left = tokens_max - sum(sizes[name] for name in kept)
    taken = set(kept)
    for name in dict.fromkeys([*ranked, *sorted(sizes)]):
        if name in sizes and name not in taken and sizes[name] <= left:
            taken.add(name)
            left -= sizes[name]
    return frozenset(taken)
