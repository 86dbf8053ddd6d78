"""Which tier serves a request: what it names, else what a router or the rules say of `auto`."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from governor.amounts import Unit
from governor.ids import CallId, TierName
from governor.learning.strategy import Strategy
from governor.pricing import PriceList
from governor.providing.fallbacks import next_fallback
from governor.scope import ScopeChain
from governor.tiers import ModelTier, TierChoice, TierRule, choose_tier
from governor.tracker import BudgetLine
from runtime.model_gateway.attempts.staying import Staying
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.model_request import ModelRequest
from runtime.model_gateway.models import AUTO
from runtime.model_gateway.ports import Candidate, Purse, RouteAsk, TierRouter, Wishes
from runtime.model_gateway.translation.translated import wire_to
from runtime.model_gateway.wires.wire import Wire
from tool_gateway.books import Books
from tool_gateway.identity import CallContext

_STAYS = "stays where its prompt is warm"
_TEXT_CHARS_MAX = 8_192
_MICRO_USD = Unit.COST_MICROUSD


@dataclass(frozen=True, slots=True, kw_only=True)
class Choosing:
    """The tiers, the rules between them, and who may know better.

    `wires` are the formats that can be translated into each other, by name.
    """

    tiers: tuple[ModelTier, ...]
    rules: tuple[TierRule, ...]
    prices: Callable[[], PriceList]
    books: Books
    staying: Staying
    router: TierRouter | None = None
    wires: Mapping[str, Wire] = field(default_factory=dict)

    @property
    def priced(self) -> tuple[ModelTier, ...]:
        """Return the tiers at their present prices."""
        prices = self.prices()
        return tuple(tier.priced_by(prices) for tier in self.tiers)

    async def choose(
        self,
        request: ModelRequest,
        wire: Wire,
        *,
        call_id: CallId,
        session_name: str,
        chain: ScopeChain,
        context: CallContext,
        wishes: Wishes,
        now_ms: int,
    ) -> TierChoice | None:
        """Return the tier for a request; None: nothing serves it on this wire."""
        spoken = self._spoken(request, wire)
        if request.model == AUTO:
            # Where every provider is unfit, the first choice says best what is the matter.
            spoken = tuple(tier for tier in spoken if self.staying.is_fit(tier)) or spoken
        choice = self._first(request, spoken)
        if choice is not None and request.model == AUTO:
            choice = self._kept(choice, request, wire, spoken, chain)
        if choice is not None and request.model == AUTO and self.router is not None:
            candidates = self._candidates(request, wire, spoken, chain)
            routed = await self.router.route(
                RouteAsk(
                    call_id=call_id,
                    chain=chain,
                    session_name=session_name,
                    turn=context.turn,
                    now_ms=now_ms,
                    task_class=context.task_class,
                    text=request.facts.text[-_TEXT_CHARS_MAX:],
                    opening=request.opening,
                    facts=request.facts,
                    messages_count=request.messages_count,
                    tools_count=request.tools_count,
                    images_count=len(request.images),
                    candidates=candidates,
                    purse=await self._purse(chain),
                    wishes=wishes,
                    usual=choice,
                )
            )
            named = {candidate.tier.name: candidate.tier for candidate in candidates}
            if routed is not None and routed.tier in named:
                choice = TierChoice(
                    tier=named[routed.tier],
                    why=routed.why,
                    mode=routed.mode,
                    effort=routed.effort,
                )
        if choice is None:
            return None
        why = choice.why + _said_of(wishes.strategy, request)
        return replace(choice, tier=choice.tier.priced_by(self.prices()), why=why)

    def able(self, request: ModelRequest, wire: Wire) -> tuple[ModelTier, ...]:
        """Return the tiers that can serve a request now, at their present prices."""
        prices = self.prices()
        priced = (tier.priced_by(prices) for tier in self._spoken(request, wire))
        return tuple(
            tier
            for tier in priced
            if tier.price is not None
            and self.staying.is_fit(tier)
            and self._is_served(request, wire, tier)
        )

    def serving(self, wire: Wire, tier: ModelTier) -> Wire | None:
        """Return the wire on which a tier serves a client of another one; None: not at all."""
        return wire_to(wire, tier, self.wires)

    def next_after(
        self,
        named: ModelTier,
        request: ModelRequest,
        wire: Wire,
        *,
        tried: Collection[TierName],
        is_for_size: bool,
    ) -> ModelTier | None:
        """Return the tier that is asked when those that were `tried` have failed."""

        def can_serve(tier: ModelTier) -> bool:
            return (
                tier.price is not None
                and self.staying.is_fit(tier)
                and self._is_served(request, wire, tier)
            )

        return next_fallback(
            named, self.priced, tried=tried, is_for_size=is_for_size, can_serve=can_serve
        )

    def cheaper_than(
        self,
        tier: ModelTier,
        request: ModelRequest,
        wire: Wire,
        *,
        tried: Collection[TierName],
    ) -> ModelTier | None:
        """Return the dearest tier that can serve a request for less than `tier`, none `tried`."""
        most = self._cost_max(tier, request, wire)
        costs = [
            (cost, each)
            for each in self.able(request, wire)
            if each.name not in tried
            and (cost := self._cost_max(each, request, wire)) is not None
            and (most is None or cost < most)
        ]
        return max(costs, key=lambda priced: priced[0])[1] if costs else None

    def _cost_max(self, tier: ModelTier, request: ModelRequest, wire: Wire) -> int | None:
        serving = self.serving(wire, tier)
        if tier.price is None or serving is None:
            return None
        try:
            payload = serving.payload(request, tier)
        except InvalidRequestError:
            return None
        return tier.price.cost_microusd(
            input_tokens=payload.input_tokens_max, output_tokens=payload.output_tokens_max
        )

    def _first(self, request: ModelRequest, spoken: tuple[ModelTier, ...]) -> TierChoice | None:
        """Return the tier that the request or the rules name; `auto` takes one with a price."""
        choice = choose_tier(request.model, spoken, self.rules, request.facts)
        if choice is None or request.model != AUTO:
            return choice
        prices = self.prices()
        priced = tuple(tier for tier in spoken if tier.priced_by(prices).price is not None)
        other = choose_tier(AUTO, priced, self.rules, request.facts)
        if other is None or other.tier.name == choice.tier.name:
            return choice
        passed = f"{choice.why} passed over: the tier {choice.tier.name} has no price"
        return replace(other, why=f"{other.why}; {passed}")

    def _kept(
        self,
        choice: TierChoice,
        request: ModelRequest,
        wire: Wire,
        spoken: tuple[ModelTier, ...],
        chain: ScopeChain,
    ) -> TierChoice:
        """Return the tier at which the session's prompt is warm, where a move does not pay."""
        prices = self.prices()
        here = self.staying.kept_at(
            chain.session,
            choice.tier.priced_by(prices),
            tuple(tier.priced_by(prices) for tier in spoken),
            body_bytes=request.body_bytes,
        )
        if here is None or not self._is_served(request, wire, here):
            return choice
        return TierChoice(tier=here, why=f"{_STAYS} ({choice.why} says {choice.tier.name})")

    def _spoken(self, request: ModelRequest, wire: Wire) -> tuple[ModelTier, ...]:
        """Return the tiers that a client of a wire may have."""
        spoken = tuple(tier for tier in self.tiers if self.serving(wire, tier) is not None)
        if request.model != AUTO:
            return spoken
        # Any tier will do: none is taken that cannot be told the request, unless all are such.
        return tuple(tier for tier in spoken if self._is_sayable(request, wire, tier)) or spoken

    def _is_sayable(self, request: ModelRequest, wire: Wire, tier: ModelTier) -> bool:
        return self.serving(wire, tier) is wire or self._is_served(request, wire, tier)

    def _is_served(self, request: ModelRequest, wire: Wire, tier: ModelTier) -> bool:
        """Tell whether a request can be said to the provider of a tier, and is served there."""
        serving = self.serving(wire, tier)
        if serving is None:
            return False
        try:
            serving.payload(request, tier)
        except InvalidRequestError:
            return False
        return True

    def _candidates(
        self,
        request: ModelRequest,
        wire: Wire,
        spoken: tuple[ModelTier, ...],
        chain: ScopeChain,
    ) -> tuple[Candidate, ...]:
        """Return the tiers that can serve a request, with the most that each may cost."""
        found = []
        prices = self.prices()
        for tier in (each.priced_by(prices) for each in spoken):
            serving = self.serving(wire, tier)
            if tier.price is None or serving is None:
                continue
            try:
                payload = serving.payload(request, tier)
            except InvalidRequestError:
                continue  # it asks for something that this tier does not serve
            cost = tier.price.cost_microusd(
                input_tokens=payload.input_tokens_max, output_tokens=payload.output_tokens_max
            )
            found.append(
                Candidate(
                    tier=tier,
                    input_tokens_max=payload.input_tokens_max,
                    output_tokens_max=payload.output_tokens_max,
                    cost_max_microusd=cost,
                    warm_tokens=self.staying.warm_tokens(chain.session, tier),
                )
            )
        return tuple(found)

    async def _purse(self, chain: ScopeChain) -> Purse | None:
        standing = await self.books.tracked(chain)
        return None if standing is None else purse_of(standing.lines, now_ms=standing.now_ms)


def purse_of(lines: tuple[BudgetLine, ...], *, now_ms: int) -> Purse | None:
    """Return the money budget with the least left; None where money is not limited."""
    money = [line for line in lines if line.unit is _MICRO_USD and line.every_ms is None]
    if not money:
        return None
    line = min(money, key=lambda each: each.limit - each.used - each.reserved)
    starts, resets = line.starts_at_ms, line.resets_at_ms
    return Purse(
        limit_microusd=line.limit,
        used_microusd=line.used,
        reserved_microusd=line.reserved,
        window_ms=None if starts is None or resets is None else resets - starts,
        window_left_ms=None if resets is None else max(0, resets - now_ms),
    )


def _said_of(strategy: Strategy | None, request: ModelRequest) -> str:
    """Return why a request is one call though its client asked for several rounds, if it did."""
    if strategy in (None, Strategy.SINGLE):
        return ""
    reason = (
        "the request cannot be answered in rounds"
        if request.model == AUTO
        else f"only {AUTO} is answered in rounds"
    )
    return f"; no {strategy.value}: {reason}"
