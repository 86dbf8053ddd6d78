"""How one model provider is treated: its keys, its retries, and what its failures lead to."""

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from governor.providing.affinity import PromptCache
from governor.providing.failure import Failure, KeyFate
from governor.providing.key_ring import KeyRing, KeyState, KeyTerms, Lent, NoneReady
from governor.providing.recourse import Attempts, Recourse, recourse_after
from governor.providing.retry_budget import RetryBudget, RetryBudgetTerms
from governor.retrying import RetryTerms
from governor.tiers import ModelTier
from runtime.model_gateway.attempts.ports import AttemptClock
from tool_gateway import telemetry
from tool_gateway.breakers import Breakers

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CareTerms:
    """How a provider is treated; `keys` are the names of the variables that hold them.

    `is_repeatable`: what may have been billed is asked for once more all the same.
    """

    keys: tuple[KeyTerms, ...] = (KeyTerms(name=""),)
    retry: RetryTerms = field(default_factory=RetryTerms)
    retry_budget: RetryBudgetTerms = field(default_factory=RetryBudgetTerms)
    is_repeatable: bool = False
    cache: PromptCache = field(default_factory=PromptCache)


class ProviderCare:
    """What is known of one provider while the sidecar runs."""

    def __init__(
        self, name: str, terms: CareTerms, *, clock: AttemptClock, breakers: Breakers
    ) -> None:
        """Begin with every key ready and every retry left."""
        self.name = name
        self.terms = terms
        self._clock = clock
        self._breakers = breakers
        self._ring = KeyRing(terms.keys)
        self._budget = RetryBudget(terms.retry_budget, now_ms=clock.elapsed_ms())
        self._counts: dict[KeyState, int] = {}
        self._has_stream_usage = True
        self._output_caps: tuple[str, ...] = ()
        self._show_keys()

    @property
    def is_fit(self) -> bool:
        """Tell whether asking it makes sense now: its breaker is closed, and a key is ready."""
        breaker = self._breakers.of(self.name)
        is_open = breaker is not None and breaker.refused() is not None
        return not is_open and self._ring.is_ready(self._clock.elapsed_ms())

    def note_call(self) -> None:
        """Take note of a call that comes for the first time."""
        self._budget.note_call(self._clock.elapsed_ms())

    def lend(
        self, *, tokens: int, wished: int | None = None, without: Collection[int] = ()
    ) -> Lent | NoneReady:
        """Return the use of a key, or when there will be one."""
        now_ms = self._clock.elapsed_ms()
        return self._ring.lend(now_ms, tokens=tokens, wished=wished, without=without)

    def give_back(self, lent: Lent, failure: Failure | None, *, tokens: int | None) -> None:
        """Take a use back that ended with `failure`, None where it went well.

        `tokens` is what it used, None where nobody knows: then what was held stays taken.
        """
        now_ms = self._clock.elapsed_ms()
        fate = KeyFate.KEPT if failure is None else failure.consequence.key
        rest_ms = None if failure is None else failure.retry_after_ms
        if failure is not None and failure.proves_nothing_generated:
            tokens = 0
        if failure is not None and fate is KeyFate.KEPT:
            # The key was hardly looked at: that says nothing for it, where it is on trial.
            fate, rest_ms = KeyFate.RESTS, 0
        self._ring.give_back(lent, now_ms, fate=fate, rest_ms=rest_ms, tokens=tokens)
        is_changed = fate is not KeyFate.KEPT or self._counts[KeyState.READY] < len(self.terms.keys)
        if is_changed and self._show_keys() and fate is KeyFate.TAKEN_OUT:
            variable = self.terms.keys[lent.position].name
            logger.warning(
                "model provider %s refused %s; it is left out until the configuration is read "
                "again, and tried now and then",
                self.name,
                f"the key that {variable} holds" if variable else "a request without a key",
            )

    def recourse(
        self,
        failure: Failure,
        *,
        made: int,
        left_ms: int,
        tokens: int,
        failed_keys: Collection[int],
        has_begun: bool = False,
    ) -> Recourse:
        """Return what to do after the attempt that was the `made`th of a call has failed."""
        now_ms = self._clock.elapsed_ms()
        attempts = Attempts(
            made=made,
            left_ms=left_ms,
            has_another_key=self._ring.has_another(now_ms, tokens=tokens, without=failed_keys),
            has_begun=has_begun,
            is_repeatable=self.terms.is_repeatable,
        )
        return recourse_after(
            failure,
            attempts,
            terms=self.terms.retry,
            below=self._clock.below,
            may_retry=lambda: self._budget.take(now_ms),
        )

    def known(self, tier: ModelTier) -> ModelTier:
        """Return one of its tiers with what was learnt of the provider since the start."""
        if self._output_caps:
            tier = replace(tier, output_caps=self._output_caps)
        return tier if self._has_stream_usage else replace(tier, asks_for_usage=False)

    def note_no_stream_usage(self) -> None:
        """Take note that the provider refuses to be asked for the usage of a stream."""
        self._has_stream_usage = False
        logger.info(
            "model provider %s refuses stream_options: the usage of its streams is counted here",
            self.name,
        )

    def note_output_caps(self, names: tuple[str, ...]) -> None:
        """Take note of the fields by which the provider lets its output be bounded."""
        self._output_caps = names
        logger.info(
            "model provider %s refuses the other field: its output is bounded by %s",
            self.name,
            " and ".join(names),
        )

    def readmit_keys(self) -> None:
        """Take refused keys in again."""
        self._ring.readmit()
        self._show_keys()

    def shown(self) -> Mapping[str, object]:
        """Return how it is, as the admin API shows it; of keys the names of their variables."""
        now_ms = self._clock.elapsed_ms()
        breaker = self._breakers.of(self.name)
        return {
            "name": self.name,
            "is_fit": self.is_fit,
            "breaker": None if breaker is None else breaker.shown(),
            "retries_left": self._budget.left(now_ms),
            "keys": [
                {
                    "from": key.name or None,
                    "state": key.state.value,
                    "in_flight": key.in_flight,
                    "rests_for_ms": key.rests_for_ms,
                }
                for key in self._ring.shown(now_ms)
            ],
        }

    def _show_keys(self) -> bool:
        """Show how many keys are in which state; tell whether that has changed."""
        counts = dict.fromkeys(KeyState, 0)
        for key in self._ring.shown(self._clock.elapsed_ms()):
            counts[key.state] += 1
        if counts == self._counts:
            return False
        self._counts = counts
        for state, count in counts.items():
            telemetry.show_keys(provider=self.name, state=state.value, count=count)
        return True


class ProviderCares:
    """Every provider, by name."""

    def __init__(
        self, terms: Mapping[str, CareTerms], *, clock: AttemptClock, breakers: Breakers
    ) -> None:
        """Begin with nothing known of any."""
        self._cares = {
            name: ProviderCare(name, one, clock=clock, breakers=breakers)
            for name, one in terms.items()
        }

    def of(self, provider: str) -> ProviderCare:
        """Return how a configured provider is treated."""
        return self._cares[provider]

    def readmit_keys(self) -> None:
        """Take every refused key in again, because the configuration was read again."""
        for care in self._cares.values():
            care.readmit_keys()

    def shown(self) -> list[Mapping[str, object]]:
        """Return how each provider is."""
        return [care.shown() for care in self._cares.values()]
