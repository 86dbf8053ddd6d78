"""How far budgets are used, and by whom, as their pages show it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.console.inside import Inside
from runtime.console.words import share_permille

# So many balances of one budget are looked at, one of a unit of a subject.
_BALANCES_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """The balances of one budget, the fullest first; `is_whole` where there are no more."""

    balances: Sequence[Mapping[str, Any]]
    is_whole: bool

    @property
    def fullest(self) -> Mapping[str, Any] | None:
        """Return the balance of which most is used, None where nothing is."""
        used = (one for one in self.balances if one["used"] or one["reserved"])
        return next(used, None)


async def use_of(inside: Inside, budget: Mapping[str, Any]) -> Use:
    """Return how far a budget of the API is used."""
    asked = {name: budget[name] for name in ("tenant", "scope")}
    asked |= {"budget": budget["id"], "limit": str(_BALANCES_MAX)}
    answer = await inside.ask("GET", "/balances", query=asked)
    if not answer.is_ok:  # its tenant is gone
        return Use(balances=(), is_whole=True)
    shared = (one | {"share": _share(one)} for one in answer.body["items"])
    return Use(
        balances=sorted(shared, key=lambda one: -one["share"]),
        is_whole=answer.body["next"] is None,
    )


async def uses_of(inside: Inside, budgets: Iterable[Mapping[str, Any]]) -> Mapping[str, Use]:
    """Return how far each budget of a page is used, by their ids."""
    return {budget["id"]: await use_of(inside, budget) for budget in budgets}


def _share(balance: Mapping[str, Any]) -> int:
    return share_permille(
        balance["used"] + balance["reserved"], balance["burst"] or balance["limit"]
    )
