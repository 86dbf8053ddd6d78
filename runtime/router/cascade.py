"""A query asked of a cheap tier first, checked, and asked of a better one where that pays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from governor.learning.cascade import check_is_worth, climb_from
from governor.learning.signs import Sign, chance_after
from runtime.model_gateway.model_request import ModelRequest
from runtime.model_gateway.preparation import Linked
from runtime.router.checks import JUDGING, SAMPLING, Agreement, Check, Judged, can_vary, own_signs
from runtime.router.conversation import for_tier, whole
from runtime.router.drafts import with_draft
from runtime.router.fencing import Marker
from runtime.router.forecast import Forecast
from runtime.router.rounds import Asker, Round, round_of
from runtime.router.shape import Shape, shape_of
from runtime.router.strategy_terms import SAMPLES_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Climbed:
    """How a cascade ended; `was_kept` where the draft of the first tier stood."""

    best: Round
    rounds: tuple[Round, ...]
    belief: float
    was_kept: bool
    why: str

    @property
    def cost_microusd(self) -> int:
        """Return what all rounds cost."""
        return sum(one.cost_microusd for one in self.rounds)

    @property
    def draft_microusd(self) -> int:
        """Return what the first tier and the checks cost."""
        return self.cost_microusd - (self.climb_microusd or 0)

    @property
    def climb_microusd(self) -> int | None:
        """Return what the tiers above the first cost; None where none of them answered."""
        first = self.rounds[0].tier
        above = [one for one in self.rounds if one.tier != first and one.is_served]
        return None if self.was_kept or not above else sum(one.cost_microusd for one in above)


@dataclass(slots=True)
class _Climbing:
    """How far a cascade has come: its rounds, and the best answer so far."""

    rounds: list[Round] = field(default_factory=list)
    best: Round | None = None
    belief: float = 0.0
    why: list[str] = field(default_factory=list)
    has_climbed: bool = False

    def note(self, one: Round, belief: float) -> None:
        """Note an answer; the best is the one that is believed most, of equals the later."""
        if self.best is None or belief >= self.belief:
            self.best, self.belief = one, belief


class Cascade:
    """Answers one request in as many rounds as pay; each is a governed call of its own."""

    def __init__(
        self,
        asker: Asker,
        *,
        value_microusd: int,
        samples: int,
        judge: Forecast | None,
        mark: Marker,
    ) -> None:
        """Take who asks, what a good answer is worth, the checks there are, and fresh marks."""
        self._asker = asker
        self._value = value_microusd
        self._samples = min(samples, SAMPLES_MAX)
        self._judge = judge
        self._mark = mark

    async def run(self, request: ModelRequest, rungs: Sequence[Forecast]) -> Climbed:
        """Return the best answer that was worth its price, from the first rung upwards."""
        assert rungs, "there is a tier to ask"
        asked, shape, state = whole(request), shape_of(request), _Climbing()
        for rung, following in zip(rungs, [*rungs[1:], None], strict=True):
            named = for_tier(asked, rung.tier.name)
            if state.best is not None:
                named = with_draft(named, state.best.said, self._mark)
            one = await self._ask(state, named, rung, "cascade")
            if one.is_denied:
                state.why.append(_denied(one, state))
                break
            if not one.is_served:
                state.why.append(f"{one.tier} did not answer")
                continue
            state.has_climbed = rung is not rungs[0]
            signs = own_signs(one, shape)
            state.why.extend(sign.says for sign in signs)
            belief = chance_after(rung.chance, signs)
            if following is not None:
                one, belief = await self._checked(state, asked, one, signs, rung, following)
            state.note(one, belief)
            if following is None or not self._climbs(state, belief, rung, following):
                break
        return Climbed(
            best=state.best or state.rounds[-1],
            rounds=tuple(state.rounds),
            belief=state.belief,
            was_kept=state.best is not None and not state.has_climbed,
            why="; ".join(state.why),
        )

    async def _ask(
        self, state: _Climbing, request: ModelRequest, rung: Forecast, why: str
    ) -> Round:
        first = state.rounds[0].call_id if state.rounds else None
        linked = Linked(why=why, parent=first, is_aside=why == JUDGING, must_be_new=why == SAMPLING)
        answer = await self._asker.ask(request, linked)
        one = round_of(rung.tier.name, request.wire, answer)
        state.rounds.append(one)
        return one

    async def _checked(  # noqa: PLR0917 - one step of `run`, with what it knows
        self,
        state: _Climbing,
        asked: ModelRequest,
        draft: Round,
        signs: list[Sign],
        rung: Forecast,
        following: Forecast,
    ) -> tuple[Round, float]:
        """Return the draft, or a sample that is better, and the chance that it is good."""

        async def ask(request: ModelRequest, of: Forecast, why: str) -> Round:
            return await self._ask(state, request, of, why)

        best = draft
        for check in self._checks(asked, shape_of(asked), rung):
            if not self._is_worth(check, signs, rung, following):
                continue
            found = await check.run(asked, best, ask)
            best = found.best
            if found.sign is not None:
                signs = [*signs, found.sign]
                state.why.append(found.sign.says)
        return best, chance_after(rung.chance, signs)

    def _checks(self, asked: ModelRequest, shape: Shape, rung: Forecast) -> Iterable[Check]:
        if self._samples and can_vary(asked):
            yield Agreement(rung=rung, samples=self._samples, shape=shape)
        if self._judge is not None:
            yield Judged(judge=self._judge, mark=self._mark)

    def _is_worth(
        self, check: Check, signs: Sequence[Sign], rung: Forecast, following: Forecast
    ) -> bool:
        if check.for_it is None or check.against_it is None:
            return False
        return check_is_worth(
            chance_after(rung.chance, signs),
            best=chance_after(rung.chance, [*signs, check.for_it]),
            worst=chance_after(rung.chance, [*signs, check.against_it]),
            next_rung=following.rung,
            draft_chance=rung.chance,
            value_microusd=self._value,
            check_microusd=check.cost_microusd,
        )

    def _climbs(self, state: _Climbing, belief: float, rung: Forecast, following: Forecast) -> bool:
        climb = climb_from(
            belief,
            following.rung,
            draft_chance=rung.chance,
            value_microusd=self._value,
            left_microusd=None,
        )
        state.why.append(f"{following.tier.name}: {climb.why}")
        return climb.is_worth_it


def _denied(one: Round, state: _Climbing) -> str:
    if state.best is None:
        return f"{one.tier} was denied"
    return f"{one.tier} was denied: this is the best answer that the budget allowed"
