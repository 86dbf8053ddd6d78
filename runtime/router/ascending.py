"""Sessions whose run looks like one that fails, moved up a tier for the rest of their task."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp

from governor.call import CallStatus
from governor.ids import CallId, SessionId, TierName
from governor.learning.ascent import (
    FIRST_WEIGHTS,
    NO_USUAL,
    NOT_BEGUN,
    Ahead,
    Ascent,
    RunFeatures,
    RunWeights,
    UsualRun,
    ascent_for,
    failing_chance,
)
from governor.learning.averages import CLASSES_MAX, UNSEEN, Average
from governor.tiers import ModelTier, TierChoice
from runtime.model_gateway.ports import CallEnd, RouteAsk, Routed, TierRouter
from runtime.router.learned import Latest

SESSIONS_MAX = 10_000
CALLS_MAX = 10_000
# What moved runs come to, where none was seen, and how many that counts as.
_CHANCE_UP = 0.7
_PRIOR_WEIGHT = 10.0
_OUTPUT_PER_INPUT = 0.1
_GOOD = 0.5
# Of a run that is longer than usual nobody knows the rest: a part of what it took so far.
_REST_OF_LONG = 0.5

Signs = Callable[[SessionId], tuple[int, int]]
WarmTokens = Callable[[SessionId, ModelTier], int]


def no_signs(_: SessionId) -> tuple[int, int]:
    """Return that nothing is known of a session's tools."""
    return 0, 0


def nothing_warm(_: SessionId, __: ModelTier) -> int:
    """Return that nothing of a session's prompt is known to be cached."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a session did for its present task, its last tier, and the one that it moved to.

    `task` is how many it had before; `kind` is of what others like it are learned from.
    """

    task: int = 0
    features: RunFeatures = NOT_BEGUN
    kind: str = ""
    tier: TierName | None = None
    moved_to: TierName | None = None
    errors_before: int = 0
    loops_before: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsSeen:
    """What is known of the runs of one agent and class.

    Of one agent: what is reported of its tasks moves nobody else's sessions.
    """

    usual: UsualRun = NO_USUAL
    weights: RunWeights = FIRST_WEIGHTS
    moved: Average = UNSEEN

    @property
    def chance_up(self) -> float:
        """Return how likely a run that was moved up ends well."""
        weight = _PRIOR_WEIGHT + self.moved.weight
        return (_CHANCE_UP * _PRIOR_WEIGHT + self.moved.mean * self.moved.weight) / weight


class AscendingRouter:
    """A router that is asked by another one first whether the session has moved up.

    Whatever `inner` chooses stands for a session that has not.
    """

    def __init__(
        self,
        inner: TierRouter | None,
        *,
        value_microusd: int,
        signs: Signs = no_signs,
        warm_tokens: WarmTokens = nothing_warm,
    ) -> None:
        """Take what a solved task is worth, and who knows of errors, loops and cached prompts.

        `signs` returns the failed tool calls of a session and its signals of loops.
        """
        self._inner = inner
        self._value = value_microusd
        self._signs = signs
        self._warm_tokens = warm_tokens
        self._runs: Latest[SessionId, Run] = Latest(Run(), keys_max=SESSIONS_MAX)
        self._calls: Latest[CallId, tuple[SessionId, int] | None] = Latest(None, keys_max=CALLS_MAX)
        self._seen: Latest[str, RunsSeen] = Latest(RunsSeen(), keys_max=CLASSES_MAX)

    async def route(self, ask: RouteAsk) -> Routed | None:
        """Return the tier for a request; of a session that moved up, one that it moved to.

        Whether it moves is settled first, and the other router is asked only for the tiers that
        may serve it then: what that one keeps of its choice is what serves.
        """
        session = ask.chain.session
        run = replace(self._runs[session], kind=_kind(ask))
        ascent = self._ascent(ask, run)
        why = "" if ascent is None else f": {ascent[1].why}"
        if ascent is not None and ascent[1].is_worth_it:
            run = replace(run, moved_to=ascent[0].name)
        left = _left(ask, run.moved_to, why=f"the task was moved up{why}")
        routed = None if self._inner is None else await self._inner.route(left)
        if routed is None and left.left_below and left.usual is not None:
            routed = Routed(tier=left.usual.tier.name, why=left.usual.why)
        served = _served(left, routed)
        self._runs.change(
            session,
            lambda now: replace(now, kind=run.kind, moved_to=run.moved_to, tier=served),
        )
        self._calls.change(ask.call_id, lambda _: (session, run.task))
        if routed is not None and left.left_below and routed.tier == run.moved_to:
            routed = replace(routed, why=f"the task was moved up{why}")
        return routed

    async def ended(self, call_id: CallId, end: CallEnd) -> None:
        """Learn how a call of a run ended."""
        known = self._calls[call_id]
        if known is not None and known[1] == self._runs[known[0]].task:
            has_failed = end.status not in (CallStatus.OK, CallStatus.DENIED)

            def after(run: Run) -> Run:
                features = replace(
                    run.features,
                    calls=run.features.calls + 1,
                    cost_microusd=run.features.cost_microusd + (end.cost_microusd or 0),
                    errors=run.features.errors + has_failed,
                )
                return replace(run, features=features)

            self._runs.change(known[0], after)
        if self._inner is not None:
            await self._inner.ended(call_id, end)

    def task_ended(self, call_id: CallId, score: float, *, counts: float = 1.0) -> None:
        """Learn what a task came to that a call was of; the next call begins another one.

        A task ends once, whoever says so again and of whichever of its calls. `counts` is by how
        much of a run whoever says so is believed.
        """
        known = self._calls.take(call_id)
        if known is None:
            return
        session, task = known
        run, signs = self._runs[session], self._signs(session)
        if run.task != task or run.features.calls == 0:
            return
        features = self._features(session, run)

        def taught(seen: RunsSeen) -> RunsSeen:
            if run.moved_to is not None:
                return replace(seen, moved=seen.moved.noted(score, counts=counts))
            has_failed = score < _GOOD
            weights = seen.weights.learned(
                features, seen.usual, has_failed=has_failed, counts=counts
            )
            # How long it was nobody has to be believed.
            return replace(seen, weights=weights, usual=seen.usual.noted(features))

        self._seen.change(run.kind, taught)
        errors, loops = signs
        after = Run(task=task + 1, kind=run.kind, errors_before=errors, loops_before=loops)
        self._runs.change(session, lambda _: after)

    def failing(self, session: SessionId) -> float:
        """Return the chance that the run of a session fails at its present tier."""
        run = self._runs[session]
        seen = self._seen[run.kind]
        return failing_chance(self._features(session, run), seen.usual, seen.weights)

    def _ascent(self, ask: RouteAsk, run: Run) -> tuple[ModelTier, Ascent] | None:
        """Return the tier after the last call's with whether moving there pays; None without."""
        tiers = [candidate.tier for candidate in ask.candidates]
        names = [tier.name for tier in tiers]
        if run.moved_to is not None or run.tier not in names:
            return None
        at = names.index(run.tier)
        if at + 1 >= len(tiers):
            return None
        here, there = tiers[at], tiers[at + 1]
        seen, features = self._seen[run.kind], self._features(ask.chain.session, run)
        ahead = self._ahead(ask.chain.session, features, seen, here=here, there=there)
        ascent = ascent_for(
            features, ahead, usual=seen.usual, weights=seen.weights, value_microusd=self._value
        )
        return there, ascent

    def _ahead(
        self,
        session: SessionId,
        features: RunFeatures,
        seen: RunsSeen,
        *,
        here: ModelTier,
        there: ModelTier,
    ) -> Ahead:
        each = features.cost_microusd / max(features.calls, 1)
        usual = exp(seen.usual.log_calls.mean) if seen.usual.is_known else features.calls
        rest = max(usual - features.calls, features.calls * _REST_OF_LONG, 1.0) * each
        warm = self._warm_tokens(session, here)
        return Ahead(
            chance_up=seen.chance_up,
            rest_microusd=round(rest),
            rest_up_microusd=round(rest * _dearer(here, there)),
            cache_microusd=_unread(there, warm),
        )

    def _features(self, session: SessionId, run: Run) -> RunFeatures:
        errors, loops = self._signs(session)
        return replace(
            run.features,
            errors=run.features.errors + max(errors - run.errors_before, 0),
            loop_signals=max(loops - run.loops_before, 0),
        )


def _kind(ask: RouteAsk) -> str:
    return f"{ask.chain.tenant}/{ask.chain.agent}/{ask.task_class or '-'}"


def _left(ask: RouteAsk, moved_to: TierName | None, *, why: str) -> RouteAsk:
    """Return the request with the tiers that may serve it after a move."""
    names = [candidate.tier.name for candidate in ask.candidates]
    if moved_to is None or moved_to not in names or names.index(moved_to) == 0:
        return ask
    below = names.index(moved_to)
    usual = ask.usual
    if usual is None or usual.tier.name not in names[below:]:
        usual = TierChoice(tier=ask.candidates[below].tier, why=why)
    return replace(ask, candidates=ask.candidates[below:], usual=usual, left_below=below)


def _served(ask: RouteAsk, routed: Routed | None) -> TierName | None:
    """Return the tier that serves a request."""
    if routed is not None:
        return routed.tier
    return None if ask.usual is None else ask.usual.tier.name


def _dearer(here: ModelTier, there: ModelTier) -> float:
    """Return how many times as much a call costs there, of mostly input as agents' calls are."""
    prices = [
        0.0
        if tier.price is None
        else tier.price.input_microusd_per_mtok
        + _OUTPUT_PER_INPUT * tier.price.output_microusd_per_mtok
        for tier in (here, there)
    ]
    return prices[1] / prices[0] if prices[0] > 0 else 1.0


def _unread(tier: ModelTier, tokens: int) -> int:
    """Return what it costs that a tier reads so many tokens that another has cached."""
    if tier.price is None or tokens <= 0:
        return 0
    full = tier.price.cost_microusd(input_tokens=tokens, output_tokens=0)
    return full - tier.price.cost_microusd(
        input_tokens=tokens, output_tokens=0, cached_tokens=tokens
    )
