"""The front for model calls on its ground: providers, tiers, what is done when one fails."""

from contextlib import AsyncExitStack

from runtime.configuration.translate import providers_of, tier_rules_of, tiers_of
from runtime.failures import problem_for
from runtime.ground import Ground
from runtime.model_gateway.answering import Models
from runtime.model_gateway.attempts.staying import Staying
from runtime.model_gateway.choosing import Choosing
from runtime.model_gateway.compaction.compacting import Compacting, Compactor
from runtime.model_gateway.front import WIRES, ModelFront, SessionOf
from runtime.model_gateway.gateway import ModelGateway
from runtime.model_gateway.kept_answers import KeptAnswers
from runtime.model_gateway.providers.pool import ProviderPool
from runtime.model_gateway.translation.translated import by_name
from runtime.strategies import strategies_of


async def model_front(
    stack: AsyncExitStack,
    ground: Ground,
    *,
    session_of: SessionOf,
    compactor: Compactor | None = None,
) -> ModelFront:
    """Return the front, which serves as long as `stack` is open.

    `compactor` makes long conversations shorter.

    Raises:
        ConfigError: a provider cannot be used as the file says.
    """
    staying = Staying(ground.provider_cares, clock=ground.clock)
    strategies = strategies_of(
        ground.config,
        router=ground.routing.router,
        signs=ground.routing.sessions.signs_of,
        warm_tokens=staying.warm_tokens,
        foretell=ground.routing.foretell,
    )
    ground.routing.feedback.heard_by = strategies.scored
    pool = await stack.enter_async_context(ProviderPool(providers_of(ground.config)))
    models = ModelGateway(
        books=ground.books,
        turns=ground.turns,
        clock=ground.clock,
        choosing=Choosing(
            tiers=tiers_of(ground.config),
            rules=tier_rules_of(ground.config),
            prices=ground.prices.prices,
            books=ground.books,
            wires=by_name(WIRES),
            staying=staying,
            router=strategies.router,
        ),
        providers=pool,
        cares=ground.provider_cares,
        running=ground.running,
        arguments_kept=ground.kept,
        policy_version=lambda: ground.policy.version,
        tracker=ground.config.guidance.chat_tracker,
        admin_contact=ground.config.guidance.admin_contact,
        turnstile=ground.turnstile,
        kept_answers=KeptAnswers(ground.config.kept_answers.policy()),
        preparer=strategies.preparer,
    )
    around: Models = strategies.around(models, fresh=ground.clock.fresh)
    if compactor is not None:
        around = Compacting(around, compactor)
    front = ModelFront(
        around, session_of=session_of, overhear=ground.flow.overhear, problem_of=problem_for
    )
    await stack.enter_async_context(front.running())
    return front
