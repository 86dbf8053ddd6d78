"""What the gateway needs of a router that chooses tiers."""

from dataclasses import dataclass
from typing import Protocol

from governor.call import CallStatus
from governor.effort import AnswerMode
from governor.ids import CallId, TaskClass, TierName, TurnId
from governor.learning.strategy import Strategy
from governor.scope import ScopeChain
from governor.tiers import ModelTier, PromptFacts, TierChoice
from governor.usage import Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the caller asked for in headers; None is left to the router.

    `effort` is relative to the average of this class of query, 1.0 being the average.
    `cache_control` is the header of that name, which kept answers go by.
    """

    mode: AnswerMode | None = None
    effort: float | None = None
    target_quality: float | None = None
    may_explore: bool = True
    strategy: Strategy | None = None
    cache_control: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A tier that can serve the request, with the most that it can be billed for there.

    `warm_tokens` of the request's input should be in the provider's cache: there they cost the
    price of cached input.
    """

    tier: ModelTier
    input_tokens_max: int
    output_tokens_max: int
    cost_max_microusd: int
    warm_tokens: int = 0

    @property
    def rebate_microusd(self) -> int:
        """Return what the call costs less here for what of its prompt is cached."""
        price, warm = self.tier.price, self.warm_tokens
        if price is None or not warm:
            return 0
        anew = price.cost_microusd(input_tokens=warm, output_tokens=0)
        return anew - price.cost_microusd(input_tokens=warm, output_tokens=0, cached_tokens=warm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Purse:
    """The money budget that has the least left; a window that never resets has no length."""

    limit_microusd: int
    used_microusd: int
    reserved_microusd: int
    window_ms: int | None
    window_left_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteAsk:
    """A request for `auto`, with everything that a choice may look at.

    `text` are the words to route by: the last user message, cut. `opening` is what users said
    first. `candidates` stand in the order of the configuration. `usual` is what is chosen
    without a router: by the tier rules, or where the session's prompt is cached. `left_below` is
    how many tiers stood before the first candidate and may not serve, as the task was moved up.
    """

    call_id: CallId
    chain: ScopeChain
    session_name: str
    turn: TurnId | None
    now_ms: int
    task_class: TaskClass | None
    text: str
    opening: str
    facts: PromptFacts
    messages_count: int
    tools_count: int
    images_count: int
    candidates: tuple[Candidate, ...]
    purse: Purse | None
    wishes: Wishes
    usual: TierChoice | None = None
    left_below: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed:
    """The tier that was chosen.

    `propensity` is the probability with which the policy that chose takes this tier: 1.0
    without exploration. `effort` is relative to what the class of query usually takes.
    """

    tier: TierName
    why: str
    effort: float | None = None
    mode: AnswerMode | None = None
    propensity: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnd:
    """How a call that was routed has ended."""

    status: CallStatus
    usage: Usage | None
    cost_microusd: int | None
    wall_ms: int
    ended_at_ms: int


class TierRouter(Protocol):
    """Whoever chooses tiers for `auto`."""

    async def route(self, ask: RouteAsk) -> Routed | None:
        """Return the tier for a request; None: the tier rules decide."""
        ...

    async def ended(self, call_id: CallId, end: CallEnd) -> None:
        """Learn how a call ended that it chose the tier of; best effort, never raises."""
        ...
