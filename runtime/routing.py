"""The router of a sidecar, put together: what chooses, what is kept of it, and what learns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from anyio.abc import TaskGroup

from memory_store.store import Store
from runtime.configuration.router import router_terms_of
from runtime.configuration.translate import tier_rules_of, tiers_of
from runtime.in_force import InForce
from runtime.router.desk import RouterDesk
from runtime.router.features import PromptReader
from runtime.router.feedback import Feedback
from runtime.router.in_force import ModelsInForce, Unpack
from runtime.router.learner import Learner
from runtime.router.model_file import unpacked
from runtime.router.predictor import TierForecast
from runtime.router.recorder import Recorder
from runtime.router.router import Router
from runtime.router.session_states import SessionStates
from runtime.router.spending import Spending
from runtime.router.terms import RouterMode, RouterTerms
from runtime.seat import Seat
from runtime.word_vectors import vectors_if_any
from tool_gateway.ports import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """The parts of a router; workers have those alone that choose and keep."""

    router: Router
    recorder: Recorder
    models: ModelsInForce
    learner: Learner
    feedback: Feedback
    desk: RouterDesk
    sessions: SessionStates
    terms: Callable[[], RouterTerms]

    def foretell(self, text: str) -> Mapping[str, TierForecast] | None:
        """Return what the incumbent expects of the tiers for a text; None where none chooses."""
        if self.terms().mode is not RouterMode.LEARNED:
            return None
        incumbent = self.models.now.incumbent
        return None if incumbent is None else incumbent.model.predict(text).tiers

    def start(self, tasks: TaskGroup, *, is_keeper: bool) -> None:
        """Start to keep what is chosen; and to learn, or else to follow who does."""
        tasks.start_soon(self.recorder.keep_for_ever, name="router log")
        run = self.learner.learn_for_ever if is_keeper else self.learner.follow_for_ever
        tasks.start_soon(run, name="router models")


def routing_of(in_force: InForce, store: Store, *, seat: Seat, clock: Clock) -> Routing:
    """Return the router on an open store; nothing is started."""
    sessions = SessionStates(is_shared=seat.is_shared(store))
    config, terms = in_force.config, _terms(in_force)
    models = ModelsInForce(
        store.router_shelf,
        unpack=_unpack(),
        terms=lambda: terms().online,
        has_shadow=lambda: terms().has_shadow,
    )
    recorder = Recorder(store.router_log, signs=sessions.taken_signs)
    return Routing(
        terms=terms,
        sessions=sessions,
        router=Router(
            terms=terms,
            rules=tier_rules_of(config),
            in_force=lambda: models.now,
            reader=PromptReader(vectors_if_any()),
            sessions=sessions,
            recorder=recorder,
            spending=Spending(processes=seat.workers),
            dice=dice(),
        ),
        recorder=recorder,
        models=models,
        learner=Learner(
            store.router_log,
            store.router_shelf,
            models,
            clock=clock,
            terms=lambda: terms().online,
            is_on=lambda: terms().mode is not RouterMode.OFF,
        ),
        feedback=Feedback(
            store.router_log,
            store.calls,
            clock=clock,
            trusted=lambda: terms().trusted_reporters,
        ),
        desk=RouterDesk(
            store.router_log,
            store.router_shelf,
            models,
            clock=clock,
            unpack=_unpack(),
            terms=terms,
            tiers=[tier.name for tier in tiers_of(config)],
        ),
    )


def dice() -> np.random.Generator:
    """Return what decides about exploring: other dice at each start."""
    return np.random.default_rng()


def _terms(in_force: InForce) -> Callable[[], RouterTerms]:
    """Return what says the terms in force; they are made anew only when the table is another."""
    known = (in_force.config.router, router_terms_of(in_force.config.router))

    def terms() -> RouterTerms:
        nonlocal known
        table = in_force.config.router
        if table is not known[0]:
            known = (table, router_terms_of(table))
        return known[1]

    return terms


def _unpack() -> Unpack:
    return partial(unpacked, vectors=vectors_if_any())
