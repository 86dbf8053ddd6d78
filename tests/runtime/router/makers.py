"""Routers as tests make them: a model whose forecasts are known, requests, and their worth."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from governor.ids import CallId, PrincipalId, SessionId, TenantId, TierName
from governor.learning.choice import Objective
from governor.learning.likeness import Rows
from governor.learning.online import OnlineTerms
from governor.pricing import ModelPrice
from governor.scope import ScopeChain
from governor.tiers import ModelTier, PromptFacts, TierRule
from memory_store.router_log import RouterDecision, RouterEnd, TurnSign
from runtime.model_gateway.ports import Candidate, Purse, RouteAsk, Wishes
from runtime.router.features import PromptReader
from runtime.router.in_force import (
    RouterInForce,
    Unpack,
    Versioned,
    nothing_learned,
)
from runtime.router.learned_file import KeptLearning
from runtime.router.model_file import ModelFileError
from runtime.router.predictor import Prediction, RouterModel, TierForecast
from runtime.router.recorder import Recorder
from runtime.router.router import Router
from runtime.router.session_states import SessionStates
from runtime.router.spending import Spending
from runtime.router.terms import RouterMode, RouterTerms

READER = PromptReader(None)
COSTS = {"low": 100.0, "high": 1_000.0}
TERMS = RouterTerms(
    mode=RouterMode.LEARNED,
    objective=Objective.VALUE,
    answer_microusd=100_000.0,
    target=0.8,
    rate_microusd_per_hour=None,
    explore_share=0.1,
    has_shadow=True,
    no_exploration_for=(),
    online=OnlineTerms(half_life_hours=336.0, influence_per_day=200.0),
    trusted_reporters=frozenset(),
    retention_ms=86_400_000,
)


class KnownModel(RouterModel):
    """A model that expects of each tier what it is told to, of long prompts as of short ones."""

    def __init__(self, qualities: Mapping[str, float], costs: Mapping[str, float] = COSTS) -> None:
        self.tiers = tuple(qualities)
        self.fitted_rows = 100
        self.context_axes = 2
        self._forecasts = {
            tier: TierForecast(quality=quality, quality_sd=0.05, cost_microusd=costs[tier])
            for tier, quality in qualities.items()
        }

    def forecast(self, features: Rows) -> Prediction:
        # A question mark and a digit are what the words of tests differ by.
        form = features[READER.widths.meaning + READER.widths.words :]
        context = np.array([float(form[4]), float(form[3])])
        return Prediction(tiers=self._forecasts, context=context)


def known_unpack() -> Unpack:
    """Return what reads models that are written as JSON of qualities."""

    def unpack(content: bytes) -> RouterModel:
        try:
            return KnownModel(json.loads(content))
        except ValueError as error:
            raise ModelFileError from error

    return unpack


def tier(name: str) -> ModelTier:
    price = ModelPrice(input_microusd_per_mtok=1, output_microusd_per_mtok=1)
    return ModelTier(
        name=TierName(name), provider="p", model=name, price=price, output_tokens_max=100
    )


def candidates(costs: Mapping[str, float] = COSTS) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(
            tier=tier(name),
            input_tokens_max=100,
            output_tokens_max=100,
            cost_max_microusd=round(2 * cost),
        )
        for name, cost in costs.items()
    )


def ask(
    number: int = 0,
    *,
    text: str = "Say something.",
    session: str = "ses_1",
    may_explore: bool = True,
    target: float | None = None,
    purse: Purse | None = None,
    agent: str = "ada",
    now_ms: int = 1_000,
    among: tuple[Candidate, ...] | None = None,
) -> RouteAsk:
    return RouteAsk(
        call_id=CallId(f"call_{number}"),
        chain=ScopeChain(
            tenant=TenantId("acme"), agent=PrincipalId(agent), session=SessionId(session)
        ),
        session_name="one",
        turn=None,
        now_ms=now_ms,
        task_class=None,
        text=text,
        opening=text,
        facts=PromptFacts(text=text, chars=len(text), has_tools=False),
        messages_count=1,
        tools_count=0,
        images_count=0,
        candidates=candidates() if among is None else among,
        purse=purse,
        wishes=Wishes(may_explore=may_explore, target_quality=target),
    )


@dataclass
class ListLog:
    """A log in memory."""

    decisions: list[RouterDecision] = field(default_factory=list)
    ends: list[RouterEnd] = field(default_factory=list)

    async def record(
        self,
        decisions: tuple[RouterDecision, ...],
        ends: tuple[RouterEnd, ...],
        signs: tuple[TurnSign, ...],
    ) -> None:
        self.decisions += decisions
        self.ends += ends


@dataclass
class Bench:
    """A router with its parts."""

    router: Router
    log: ListLog
    recorder: Recorder
    sessions: SessionStates
    now: RouterInForce

    async def choices(self) -> list[RouterDecision]:
        await self.recorder.flush()
        return self.log.decisions


def bench(
    model: RouterModel | None = None,
    *,
    terms: RouterTerms = TERMS,
    rules: tuple[TierRule, ...] = (),
    shadow: RouterModel | None = None,
    learned: KeptLearning | None = None,
    seed: int = 0,
) -> Bench:
    """Return a router with a model in force, or none."""
    now = RouterInForce()
    if model is not None:
        incumbent = Versioned(version="abc", model=model)
        known = learned or nothing_learned(incumbent, terms.online)
        now = replace(now, incumbent=incumbent, learned=known)
    if shadow is not None:
        now = replace(now, shadow=Versioned(version="def", model=shadow))
    log, sessions = ListLog(), SessionStates()
    recorder = Recorder(log, signs=sessions.taken_signs)
    router = Router(
        terms=lambda: terms,
        rules=rules,
        in_force=lambda: now,
        reader=READER,
        sessions=sessions,
        recorder=recorder,
        spending=Spending(),
        dice=np.random.default_rng(seed),
    )
    return Bench(router=router, log=log, recorder=recorder, sessions=sessions, now=now)
