"""What a budget's terms are called, in the file and through the admin API."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from governor.amounts import AMOUNT_MAX
from governor.target import TargetMatch

_WILD = frozenset("*?[")

Pattern = Annotated[str, Field(min_length=1, max_length=200)]
Permille = Annotated[int, Field(strict=True, ge=1, le=1000)]
WarnAt = Annotated[
    tuple[Permille, ...],
    Field(max_length=10, description="thousandths of a limit at which a notice is given, rising"),
]
Burst = Annotated[
    Annotated[int, Field(strict=True, ge=1, le=AMOUNT_MAX)] | None,
    Field(
        description="how much of a rate may come at once, also more than its limit; null: its limit"
    ),
]


class Match(BaseModel):
    """Which calls a budget is for; each part is a shell pattern."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tool: Pattern = "*"
    upstream: Pattern = "*"
    tier: Pattern = "*"


def match_of(words: Match) -> TargetMatch:
    """Return the match that `words` describe."""
    return TargetMatch(tool=words.tool, upstream=words.upstream, tier=words.tier)


def match_words(match: TargetMatch) -> Match:
    """Return how `match` is written."""
    return Match(tool=match.tool, upstream=match.upstream, tier=match.tier)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTargets:
    """What is configured, so that a budget for something else can be told.

    `prefixes` begin the names of tools that upstreams bring; an empty one begins them all.
    """

    tools: frozenset[str]
    prefixes: tuple[str, ...]
    upstreams: frozenset[str]
    providers: frozenset[str]
    tiers: frozenset[str]

    def unknown(self, match: TargetMatch) -> Iterator[tuple[str, str]]:
        """Yield each part of `match` that names nothing configured, with what is wrong."""
        if _is_name(match.tool) and not self._has_tool(match.tool):
            yield "tool", f"no tool or model is called {match.tool!r}"
        if _is_name(match.upstream) and match.upstream not in self.upstreams | self.providers:
            yield "upstream", f"no upstream or provider is called {match.upstream!r}"
        if _is_name(match.tier) and match.tier not in self.tiers:
            yield "tier", f"no tier is called {match.tier!r}"

    def _has_tool(self, name: str) -> bool:
        return name in self.tools or name.startswith(self.prefixes)


def _is_name(pattern: str) -> bool:
    """Tell whether the pattern has no wildcard."""
    return not _WILD.intersection(pattern)
