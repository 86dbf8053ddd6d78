"""Chooses the tier for `auto`: by what was learned, by rules, now and again by the dice."""

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np

from governor.amounts import Unit
from governor.call import CallStatus
from governor.ids import CallId, SessionId, TierName, TurnId
from governor.learning.bandit import Vector
from governor.learning.burn import multiple_of_burn
from governor.learning.choice import (
    NO_EXPLORATION,
    ChoiceTerms,
    Exploration,
    Objective,
    Option,
    affordable,
    drawn,
    preferred,
    propensities,
    share_left,
)
from governor.learning.likeness import Rows
from governor.tiers import TierRule, choose_tier
from memory_store.router_log import RouterDecision, RouterEnd
from runtime.model_gateway.ports import CallEnd, Purse, RouteAsk, Routed
from runtime.router.features import PromptReader
from runtime.router.in_force import RouterInForce, Versioned, context_of
from runtime.router.predictor import Prediction
from runtime.router.recorder import Recorder
from runtime.router.session_states import SessionStates
from runtime.router.spending import Spending
from runtime.router.terms import RouterMode, RouterTerms
from runtime.router.written import options_text, packed
from tool_gateway import telemetry

logger = logging.getLogger(__name__)

RUNNING_MAX = 8_192
_DRAWS = 64
# A forecast costs more than all else here, so one choice in so many is shadowed.
_SHADOWED_EACH = 10
# What is believed of a tier that the model does not know, beside what it says of the others.
_UNKNOWN_SPREAD = 0.3
# What tells of the tier; who was denied or went away does not.
_FAILED = frozenset({CallStatus.UPSTREAM_FAILED, CallStatus.TIMED_OUT, CallStatus.LIMIT_HIT})
_NO_DRAWS: Vector = np.zeros((0, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    """A call whose tier was chosen here and that has not ended."""

    session: SessionId
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """A choice with everything that is kept of it."""

    options: tuple[Option, ...]
    chances: Vector
    at: int
    best: int
    policy: str
    why: str
    price: float
    model: str | None = None
    shadow: tuple[str, str] | None = None

    @property
    def tier(self) -> str:
        """Return the tier that was taken."""
        return self.options[self.at].tier

    @property
    def explored(self) -> bool:
        """Tell whether another tier than the best was taken, to learn from it."""
        return self.at != self.best


class Router:
    """Chooses tiers and keeps what it chose; it never keeps a call waiting or from running."""

    def __init__(
        self,
        *,
        terms: Callable[[], RouterTerms],
        rules: tuple[TierRule, ...],
        in_force: Callable[[], RouterInForce],
        reader: PromptReader,
        sessions: SessionStates,
        recorder: Recorder,
        spending: Spending,
        dice: np.random.Generator,
    ) -> None:
        """Take the parts; `dice` decides what is explored."""
        self._terms = terms
        self._rules = rules
        self._in_force = in_force
        self._reader = reader
        self._sessions = sessions
        self._recorder = recorder
        self._spending = spending
        self._dice = dice
        self._chosen = 0
        self._running: OrderedDict[CallId, _Running] = OrderedDict()

    async def route(self, ask: RouteAsk) -> Routed | None:
        """Return the tier for a request; None: the tier rules decide, and nothing is kept."""
        terms = self._terms()
        if terms.mode is RouterMode.OFF or not ask.candidates:
            return None
        try:
            return self._route(ask, terms)
        except Exception:
            # Whatever is wrong with what was learned, a call is answered as without it.
            telemetry.count_failure("router")
            logger.exception("the router failed; the tier rules decide")
            return None

    def _route(self, ask: RouteAsk, terms: RouterTerms) -> Routed:
        state = self._sessions.of(ask.chain.session, _turn(ask))
        if not ask.wishes.may_explore:
            self._sessions.mark(ask.chain.session)
        features = self._reader.read(ask.text or ask.opening, state)
        now = self._in_force()
        # Once for each call: to look at what was spent is what steers spending.
        choice = self._choice_terms(ask, terms)
        chosen = (
            self._by_rules(ask, terms)
            if terms.mode is RouterMode.RULES or now.incumbent is None
            else self._learned(ask, terms, choice, now, now.incumbent, features=features)
        )
        self._chosen += 1
        if now.shadow is not None and self._chosen % _SHADOWED_EACH == 1:
            chosen = replace(chosen, shadow=self._shadow(ask, chosen, now.shadow, features, choice))
        self._keep(ask, chosen, features)
        return Routed(
            tier=ask.candidates[chosen.at].tier.name,
            why=chosen.why,
            propensity=float(chosen.chances[chosen.at]),
        )

    async def ended(self, call_id: CallId, end: CallEnd) -> None:
        """Keep how a call ended."""
        running = self._running.pop(call_id, None)
        if running is None:
            return
        measured = None if end.usage is None else end.usage.measured
        tokens = None if measured is None else measured.of(Unit.OUTPUT_TOKENS)
        has_failed = end.status in _FAILED
        self._sessions.note_model(
            running.session, rank=running.rank, tokens=tokens or 0, has_failed=has_failed
        )
        if end.cost_microusd is not None:
            self._spending.note(end.cost_microusd, at_ms=end.ended_at_ms)
        self._recorder.ended(
            RouterEnd(
                call_id=call_id,
                status=end.status.value,
                cost_microusd=end.cost_microusd,
                output_tokens=tokens,
                latency_ms=end.wall_ms,
                ended_at_ms=end.ended_at_ms,
            )
        )

    def _by_rules(self, ask: RouteAsk, terms: RouterTerms) -> _Chosen:
        """Return what the tier rules say, with something to learn from where that is wanted."""
        tiers = tuple(candidate.tier for candidate in ask.candidates)
        usual = None if ask.usual is None else ask.usual.tier.name
        choice = next(
            (ask.usual for tier in tiers if tier.name == usual),
            choose_tier("auto", tiers, self._rules, ask.facts),
        )
        assert choice is not None, "there is a tier to choose"
        best = [tier.name for tier in tiers].index(choice.tier.name)
        options = tuple(
            Option(
                tier=candidate.tier.name,
                quality=0.5,
                spread=_UNKNOWN_SPREAD,
                cost_microusd=float(candidate.cost_max_microusd),
                cost_max_microusd=candidate.cost_max_microusd,
            )
            for candidate in ask.candidates
        )
        is_cold = terms.mode is RouterMode.LEARNED
        share = terms.explore_share if is_cold else 0.0
        return self._drawn(
            ask,
            options,
            best,
            share=share,
            policy="cold" if is_cold else "rules",
            why=choice.why,
            price=terms.price,
        )

    def _learned(
        self,
        ask: RouteAsk,
        terms: RouterTerms,
        choice: ChoiceTerms,
        now: RouterInForce,
        incumbent: Versioned,
        *,
        features: Rows,
    ) -> _Chosen:
        forecast = incumbent.model.forecast(features)
        options = _options(ask, forecast)
        evidence: list[float] = []
        if now.learned is not None:
            names = [one.tier for one in options]
            beyond = now.learned.bandit.expected(context_of(forecast), names)
            evidence = [now.learned.bandit.evidence(name) for name in names]
            options = tuple(
                replace(
                    one,
                    quality=min(1.0, max(0.0, one.quality + float(mean))),
                    spread=float(np.hypot(one.spread, spread)),
                )
                for one, mean, spread in zip(options, beyond.mean, beyond.spread, strict=True)
            )
        best = self._best(ask, options, choice)
        return self._drawn(
            ask,
            options,
            best,
            share=share_left(terms.explore_share, evidence),
            policy="learned",
            why=f"learned ({choice.objective.value})",
            price=choice.price,
            model=incumbent.version,
        )

    def _choice_terms(self, ask: RouteAsk, terms: RouterTerms) -> ChoiceTerms:
        wished = ask.wishes.target_quality
        objective = terms.objective if wished is None else Objective.TARGET
        price = terms.price * _burn(ask.purse)
        if terms.objective is Objective.RATE and terms.rate_microusd_per_hour is not None:
            price *= self._spending.multiple(terms.rate_microusd_per_hour, now_ms=ask.now_ms)
        target = terms.target if wished is None else wished
        return ChoiceTerms(objective=objective, price=price, target=target)

    def _best(self, ask: RouteAsk, options: tuple[Option, ...], choice: ChoiceTerms) -> int:
        held = affordable(options, _left(ask.purse))
        return held[preferred([options[at] for at in held], choice)]

    def _drawn(
        self,
        ask: RouteAsk,
        options: tuple[Option, ...],
        best: int,
        *,
        share: float,
        policy: str,
        why: str,
        price: float,
        model: str | None = None,
    ) -> _Chosen:
        exploration = NO_EXPLORATION
        if share > 0 and self._may_explore(ask):
            exploration = Exploration(share=share, left_microusd=_left(ask.purse))
        normals = _NO_DRAWS
        if exploration.share > 0 and model is not None:
            normals = self._dice.standard_normal((_DRAWS, len(options)))
        chances = propensities(options, best, exploration, normals)
        at = drawn(chances, self._dice.random()) if exploration.share > 0 else best
        return _Chosen(
            options=options,
            chances=chances,
            at=at,
            best=best,
            policy=policy,
            why=why if at == best else f"explored ({policy})",
            price=price,
            model=model,
        )

    def _may_explore(self, ask: RouteAsk) -> bool:
        """Tell whether a call may be answered by another tier than the best, to learn from it."""
        if not ask.wishes.may_explore or self._sessions.is_marked(ask.chain.session):
            return False
        return not any(
            fnmatchcase(name, pattern)
            for pattern in self._terms().no_exploration_for
            for name in (ask.chain.agent, ask.task_class or "")
        )

    def _shadow(
        self,
        ask: RouteAsk,
        chosen: _Chosen,
        shadow: Versioned,
        features: Rows,
        choice: ChoiceTerms,
    ) -> tuple[str, str]:
        """Return what a candidate would have taken, which changes nothing."""
        options = _options(ask, shadow.model.forecast(features))
        best = self._best(ask, options, choice)
        would = options[best].tier
        telemetry.count_shadow(is_agreed=would == chosen.options[chosen.best].tier)
        return shadow.version, would

    def _keep(self, ask: RouteAsk, chosen: _Chosen, features: Rows) -> None:
        rank = ask.left_below + chosen.at
        self._running[ask.call_id] = _Running(session=ask.chain.session, rank=rank)
        if len(self._running) > RUNNING_MAX:
            self._running.popitem(last=False)
        telemetry.note_choice(
            tier=chosen.tier, policy=chosen.policy, explored=chosen.explored, model=chosen.model
        )
        shadow_model, shadow_tier = chosen.shadow or (None, None)
        self._recorder.decided(
            RouterDecision(
                call_id=ask.call_id,
                decided_at_ms=ask.now_ms,
                tenant=ask.chain.tenant,
                agent=ask.chain.agent,
                session=ask.chain.session,
                turn=_turn(ask),
                task_class=ask.task_class,
                policy=chosen.policy,
                model=chosen.model,
                tier=ask.candidates[chosen.at].tier.name,
                propensity=float(chosen.chances[chosen.at]),
                explored=chosen.explored,
                price=chosen.price,
                options=options_text(chosen.options, chosen.chances),
                features=packed(features, meaning_axes=self._reader.widths.meaning),
                shadow_model=shadow_model,
                shadow_tier=shadow_tier,
            )
        )


def _options(ask: RouteAsk, forecast: Prediction) -> tuple[Option, ...]:
    """Return what a model believes of each candidate, one that it does not know included."""
    tiers = forecast.tiers
    usual = sum(one.quality for one in tiers.values()) / max(1, len(tiers))
    # How much of what is held a call comes to in the end, in the tiers that are known.
    held = {one.tier.name: one.cost_max_microusd for one in ask.candidates}
    shares = [
        one.cost_microusd / most
        for name, one in tiers.items()
        if (most := held.get(TierName(name), 0)) > 0
    ]
    share = sum(shares) / len(shares) if shares else 1.0
    options = []
    for candidate in ask.candidates:
        found = tiers.get(candidate.tier.name)
        unknown_cost = share * candidate.cost_max_microusd
        forecast_cost = unknown_cost if found is None else found.cost_microusd
        options.append(
            Option(
                tier=candidate.tier.name,
                quality=usual if found is None else found.quality,
                spread=_UNKNOWN_SPREAD if found is None else found.quality_sd,
                # A session that moves reads its prompt anew, at the full price.
                cost_microusd=max(0.0, forecast_cost - candidate.rebate_microusd),
                cost_max_microusd=candidate.cost_max_microusd,
            )
        )
    return tuple(options)


def _turn(ask: RouteAsk) -> TurnId:
    """Return the turn of a request; one that names none starts a turn of its own."""
    return TurnId(ask.call_id) if ask.turn is None else ask.turn


def _left(purse: Purse | None) -> int | None:
    """Return what a purse has left, None without one."""
    if purse is None:
        return None
    return max(0, purse.limit_microusd - purse.used_microusd - purse.reserved_microusd)


def _burn(purse: Purse | None) -> float:
    if purse is None:
        return 1.0
    return multiple_of_burn(
        used=purse.used_microusd + purse.reserved_microusd,
        limit=purse.limit_microusd,
        window_ms=purse.window_ms,
        left_ms=purse.window_left_ms,
    )
