"""How requests for models are made ready and answered in rounds, out of the configuration."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from governor.ids import CallId
from governor.learning.averages import UsualTokens
from runtime.configuration.model import Config
from runtime.configuration.tier_sets import strategy_terms_of
from runtime.model_gateway.gateway import ModelGateway
from runtime.model_gateway.ports import TierRouter
from runtime.router.ascending import (
    AscendingRouter,
    Signs,
    WarmTokens,
    no_signs,
    nothing_warm,
)
from runtime.router.examples import ExampleFile, ExampleSource, read_examples
from runtime.router.fencing import marker
from runtime.router.forecast import Foretell
from runtime.router.in_rounds import InRounds
from runtime.router.preparing import TierPreparer
from runtime.router.strategist import Strategist
from runtime.word_vectors import vectors_if_any

_SECRET_BYTES = 32
# What a good answer is worth to whoever shows examples and does not say.
_EXAMPLES_VALUE_MICROUSD = 100_000
# What a solved task is worth to whoever lets sessions move up and does not say.
_TASK_VALUE_MICROUSD = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Strategies:
    """Whoever makes requests ready for their tier, and whoever answers them in rounds."""

    preparer: TierPreparer
    strategist: Strategist
    ascending: AscendingRouter | None = None
    inner: TierRouter | None = None

    @property
    def router(self) -> TierRouter | None:
        """Return who chooses tiers for `auto`, None where the tier rules do."""
        return self.inner if self.ascending is None else self.ascending

    def around(self, gateway: ModelGateway, *, fresh: Callable[[str], str]) -> InRounds:
        """Return a gateway that answers `auto` in as many rounds as pay."""
        return InRounds(gateway, self.strategist, fresh=fresh)

    def scored(self, call_id: CallId, score: float, *, ends_task: bool, counts: float) -> None:
        """Learn the outcome of a call, or that of the whole task that it was of."""
        self.strategist.scored(call_id, score)
        if ends_task and self.ascending is not None:
            self.ascending.task_ended(call_id, score, counts=counts)


def strategies_of(
    config: Config,
    *,
    router: TierRouter | None = None,
    signs: Signs = no_signs,
    warm_tokens: WarmTokens = nothing_warm,
    foretell: Foretell | None = None,
) -> Strategies:
    """Return both, with one memory of what is usual.

    `router` chooses tiers for sessions that have not moved up. `signs` and `warm_tokens` say
    what tools told of a session and how much of its prompt a tier has cached; `foretell` is a
    fitted model's word on the tiers for a text.

    Raises:
        ConfigError: the file of examples cannot be used.
    """
    terms, usual = strategy_terms_of(config.strategy, config.router), UsualTokens()
    mark = marker(secrets.token_bytes(_SECRET_BYTES))
    strategist = Strategist(terms, usual=usual, mark=mark, foretell=foretell)
    preparer = TierPreparer(
        usual=usual,
        learned=strategist.learned,
        mark=mark,
        examples=_examples(config.strategy.examples.file),
        value_microusd=terms.value_microusd or _EXAMPLES_VALUE_MICROUSD,
    )
    ascending = None
    if config.strategy.move_up:
        ascending = AscendingRouter(
            router,
            value_microusd=terms.value_microusd or _TASK_VALUE_MICROUSD,
            signs=signs,
            warm_tokens=warm_tokens,
        )
    return Strategies(preparer=preparer, strategist=strategist, ascending=ascending, inner=router)


def _examples(file: str | None) -> ExampleSource | None:
    if file is None:
        return None
    examples = read_examples(Path(file))
    vectors = vectors_if_any()
    return None if vectors is None else ExampleFile(examples, vectors)
