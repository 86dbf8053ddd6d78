"""Tiers that bid for a query with a short plan, of which the one that is worth most answers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio
import msgspec

from governor.ids import TierName
from governor.learning.auction import (
    Bid,
    Calling,
    Prospect,
    Weighed,
    call_for_bids,
    trust_in,
    weigh,
    winner,
)
from runtime.model_gateway.model_request import ModelRequest
from runtime.model_gateway.preparation import Linked
from runtime.router.conversation import for_tier, last_words, question, whole
from runtime.router.drafts import with_plan
from runtime.router.fencing import Marker, fenced, rule_of
from runtime.router.forecast import Forecast, cost_of, query_class
from runtime.router.learned import Learned, PastPlan
from runtime.router.rounds import Asker, Round, round_of
from runtime.router.said import Said
from runtime.router.strategy_terms import BID_TOKENS, PLAN_CHARS_MAX, QUESTION_CHARS_MAX

_BID = re.compile(r"\{[^{}]*\}", re.DOTALL)
_TOLD = (
    "You bid for a question that you do not answer now. Say in one or two sentences how you "
    "would answer it, how likely your answer would be right and complete, from 0 to 1, and how "
    'many tokens it would take. Answer with JSON alone: {"plan": "...", "chance": 0.5, '
    '"tokens": 300}. Be honest: a bidder that promises too much is believed less.'
)
_BIDDERS_MIN = 2
_KNEW = {True: "went well", False: "did not go well"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What a tier bid: its plan, its chance, and the length of the answer."""

    plan: str
    chance: float
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sold:
    """How an auction ended; `won` is None where no bid could be read."""

    best: Round
    rounds: tuple[Round, ...]
    won: Weighed | None
    plan: str
    why: str

    @property
    def cost_microusd(self) -> int:
        """Return what the bids and the answer cost."""
        return sum(one.cost_microusd for one in self.rounds)


class Auction:
    """Answers one request by whichever tier's bid is worth most; each bid is a governed call."""

    def __init__(
        self,
        asker: Asker,
        learned: Learned,
        *,
        value_microusd: int,
        query_class: str,
        audience: str,
        mark: Marker,
        task_class: str | None = None,
    ) -> None:
        """Take who asks, what is known of bidders, and what a good answer is worth.

        Plans of earlier answers are shown to their `audience` alone: they tell of its questions.
        """
        self._asker = asker
        self._learned = learned
        self._value = value_microusd
        self._class = query_class
        self._audience = audience
        self._mark = mark
        self._task_class = task_class

    def bidders(self, request: ModelRequest, tiers: Sequence[Forecast]) -> list[Forecast]:
        """Return those that are asked for bids: the others' could not be read of late."""
        asked = self._learned.is_asked_for_bids
        return [one for one in tiers if asked(self._tier_class(request, one))]

    def is_called(self, request: ModelRequest, tiers: Sequence[Forecast]) -> Calling:
        """Return whether asking for bids is expected to pay."""
        bidders = self.bidders(request, tiers)
        put = self._put(request, tiers[0].tier.name)
        return call_for_bids(
            [
                Prospect(
                    tier=one.tier.name,
                    chance=one.chance,
                    spread=one.spread,
                    cost_microusd=one.cost_microusd,
                )
                for one in bidders
            ],
            bid_microusd={
                one.tier.name: cost_of(one.tier, put, output_tokens=BID_TOKENS) for one in bidders
            },
            trust=self._trust,
            value_microusd=self._value,
        )

    async def run(self, request: ModelRequest, tiers: Sequence[Forecast]) -> Sold:
        """Return the answer of the tier whose bid is worth most, of `auto` without a bid."""
        bidders = self.bidders(request, tiers)
        for one in tiers:
            if one not in bidders:
                self._learned.note_no_bid(self._tier_class(request, one))
        if len(bidders) < _BIDDERS_MIN:
            return await self._unsold(request, (), "no bids: theirs could not be read of late")
        rounds, bids, unread = await self._bids(request, bidders)
        not_read = f"the bids of {', '.join(unread)} could not be read" if unread else ""
        if not bids:
            return await self._unsold(request, tuple(rounds), not_read or "nobody could bid")
        won = winner([weighed for weighed, _ in bids.values()])
        plan = bids[won.bid.tier][1]
        asked = for_tier(whole(request), won.bid.tier)
        answer = await self._asker.ask(
            with_plan(asked, plan, self._mark) if plan else asked,
            Linked(why=f"won an auction of {len(bids)}", parent=rounds[0].call_id),
        )
        best = round_of(won.bid.tier, request.wire, answer)
        told = ", ".join(
            f"{tier} {weighed.chance:.2f} for {weighed.cost_microusd}"
            for tier, (weighed, _) in bids.items()
        )
        why = f"bids: {told}" + (f"; {not_read}" if not_read else "")
        return Sold(best=best, rounds=(*rounds, best), won=won, plan=plan, why=why)

    async def _unsold(self, request: ModelRequest, rounds: tuple[Round, ...], why: str) -> Sold:
        """Return what `auto` answers without bids, with the bids that were paid for."""
        parent = rounds[0].call_id if rounds else None
        answer = await self._asker.ask(whole(request), Linked(why=why, parent=parent))
        best = round_of(TierName(request.model), request.wire, answer)
        return Sold(best=best, rounds=(*rounds, best), won=None, plan="", why=why)

    def _tier_class(self, request: ModelRequest, one: Forecast) -> str:
        return query_class(request, one.tier.name, task_class=self._task_class)

    @property
    def _trust(self) -> float:
        return trust_in(self._learned.claims(self._class))

    def _put(self, request: ModelRequest, tier: TierName) -> ModelRequest:
        words = last_words(request, QUESTION_CHARS_MAX)
        mark = self._mark(words)
        parts = [
            fenced(
                words,
                kind="question",
                mark=mark,
                chars_max=QUESTION_CHARS_MAX,
            )
        ]
        told = f"{_TOLD} {rule_of('question', mark)}"
        past = self._learned.plans(self._audience, self._class)
        if past:
            told += f" Earlier plans for such questions. {rule_of('earlier', mark)}"
            parts.extend(_retold(one, how, mark) for how, one in past.items())
        return question(
            request, tier=tier, told=told, asked="\n".join(parts), output_tokens=BID_TOKENS
        )

    async def _bids(
        self, request: ModelRequest, tiers: Sequence[Forecast]
    ) -> tuple[list[Round], Mapping[TierName, tuple[Weighed, str]], list[TierName]]:
        """Return the calls that asked for bids, the bids, and whose could not be read."""
        rounds: list[Round] = []

        async def ask(one: Forecast) -> None:
            put = self._put(request, one.tier.name)
            parent = rounds[0].call_id if rounds else None
            linked = Linked(why="bid of an auction", parent=parent, is_aside=True)
            answer = await self._asker.ask(put, linked)
            rounds.append(round_of(one.tier.name, request.wire, answer))

        # The first alone, so that the others have a call to be linked to.
        await ask(tiers[0])
        async with anyio.create_task_group() as tasks:
            for one in tiers[1:]:
                tasks.start_soon(ask, one)
        said = {one.tier: one for one in rounds if one.is_served}
        bids: dict[TierName, tuple[Weighed, str]] = {}
        unread: list[TierName] = []
        for one in tiers:
            made = said.get(one.tier.name)
            planned = None if made is None else planned_in(made.said)
            if made is None:
                continue
            tier_class = self._tier_class(request, one)
            self._learned.note_bid(tier_class, was_read=planned is not None)
            if planned is None:
                unread.append(one.tier.name)
                continue
            tokens = min(planned.tokens, one.tier.output_tokens_max)
            bid = Bid(
                tier=one.tier.name,
                claimed=planned.chance,
                planned_tokens=tokens,
                answer_microusd=cost_of(one.tier, request, output_tokens=tokens),
            )
            bidder = self._learned.bidders[tier_class]
            weighed = weigh(
                bid, bidder, prior=one.chance, trust=self._trust, value_microusd=self._value
            )
            bids[one.tier.name] = (weighed, planned.plan)
        return rounds, bids, unread


def planned_in(said: Said) -> Planned | None:
    """Return the bid in a model's words; None where there is none of the form."""
    match = _BID.search(said.text)
    try:
        found = msgspec.json.decode(match[0]) if match is not None else None
    except (msgspec.DecodeError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    chance, tokens, plan = found.get("chance"), found.get("tokens"), found.get("plan")
    if isinstance(chance, bool) or not isinstance(chance, (int, float)) or not 0 <= chance <= 1:
        return None
    if isinstance(tokens, bool) or not isinstance(tokens, (int, float)) or not tokens >= 1:
        return None
    words = plan[:PLAN_CHARS_MAX] if isinstance(plan, str) else ""
    return Planned(plan=words, chance=float(chance), tokens=int(min(tokens, 10**6)))


def _retold(past: PastPlan, went_well: bool, mark: str) -> str:  # noqa: FBT001 - a key of plans
    told = f"{past.tier}, {_KNEW[went_well]}: {past.plan}"
    return fenced(told, kind="earlier", mark=mark, chars_max=PLAN_CHARS_MAX)
