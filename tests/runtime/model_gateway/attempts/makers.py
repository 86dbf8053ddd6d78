"""A provider's care on a clock that stands still until it is told to move."""

from dataclasses import dataclass, field

from governor.breaker import BreakerTerms
from governor.providing.key_ring import KeyTerms
from governor.providing.retry_budget import RetryBudgetTerms
from governor.retrying import RetryTerms
from governor.target import CallKind
from runtime.model_gateway.attempts.care import CareTerms, ProviderCare
from tests.tool_gateway.makers import FakeClock
from tool_gateway.breakers import Breakers

NO_PAUSE = RetryTerms(retries=2, pause_ms=0, pause_ms_max=0)


@dataclass
class StillClock(FakeClock):
    """Draws nothing but 0, so that no test waits."""

    at_ms: int = 0
    drawn: list[int] = field(default_factory=list)

    def elapsed_ms(self) -> int:
        return self.at_ms

    def below(self, bound: int) -> int:
        self.drawn.append(bound)
        return 0


def a_care(
    *names: str,
    clock: StillClock | None = None,
    retry: RetryTerms = NO_PAUSE,
    retries_max: int = 10,
    is_repeatable: bool = False,
    rpm: int | None = None,
) -> ProviderCare:
    clock = clock or StillClock()
    return ProviderCare(
        "lab",
        CareTerms(
            keys=tuple(KeyTerms(name=name, requests_per_minute=rpm) for name in names or ("A",)),
            retry=retry,
            retry_budget=RetryBudgetTerms(retries_max=retries_max, percent=20, per_s=1),
            is_repeatable=is_repeatable,
        ),
        clock=clock,
        breakers=Breakers({"lab": BreakerTerms()}, clock=clock, kind=CallKind.MODEL),
    )
