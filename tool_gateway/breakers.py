"""The circuit breakers of upstreams or model providers: asked before a call, told how it ended."""

import logging
from collections.abc import Collection, Mapping

from governor.breaker import Breaker, BreakerTerms, Permit, Phase, Refused, Sign
from governor.denial import Denied
from governor.target import CallKind
from tool_gateway import telemetry
from tool_gateway.denials import upstream_unavailable
from tool_gateway.ports import Clock
from tool_gateway.results import Json

logger = logging.getLogger(__name__)


_WORDS = {CallKind.TOOL: "upstream", CallKind.MODEL: "model provider"}


class UpstreamBreaker:
    """The breaker of one upstream, or of one model provider."""

    __slots__ = ("_breaker", "_clock", "_kind", "name")

    def __init__(
        self, name: str, terms: BreakerTerms, *, clock: Clock, kind: CallKind = CallKind.TOOL
    ) -> None:
        """Begin closed; `kind` is that of the calls which it lets through."""
        self.name = name
        self._kind = kind
        self._clock = clock
        self._breaker = Breaker(terms)
        telemetry.show_breaker(kind=kind.value, backend=name, phase=Phase.CLOSED)

    @property
    def terms(self) -> BreakerTerms:
        """Return what it goes by."""
        return self._breaker.terms

    def refused(self) -> Denied | None:
        """Return why a call would be turned away now; this lets none through."""
        refused = self._breaker.refused(self._clock.elapsed_ms())
        return None if refused is None else self._denied(refused)

    def let_through(self) -> Permit | Denied:
        """Return a permit for one call, which `ended` takes back, or why there is none."""
        before = self._breaker.phase
        answer = self._breaker.let_through(self._clock.elapsed_ms())
        self._show_change(before)
        return self._denied(answer) if isinstance(answer, Refused) else answer

    def ended(self, permit: Permit, sign: Sign) -> bool:
        """Take note of how a call ended; tell whether the breaker opened over it."""
        before = self._breaker.phase
        self._breaker.ended(permit, sign, self._clock.elapsed_ms())
        return self._show_change(before) and self._breaker.phase is Phase.OPEN

    def shown(self) -> Json:
        """Return how it stands, as the admin API shows it."""
        now_ms = self._clock.elapsed_ms()
        failed, ended = self._breaker.counted(now_ms)
        refused = self._breaker.refused(now_ms)
        return {
            "phase": self._breaker.phase.value,
            "failed": failed,
            "ended": ended,
            "window_ms": self._breaker.terms.window_ms,
            "retry_after_ms": None if refused is None else refused.retry_after_ms,
        }

    def _denied(self, refused: Refused) -> Denied:
        return upstream_unavailable(
            f"{self.name} failed too often lately and is left alone for a while.",
            retry_after_ms=refused.retry_after_ms,
        )

    def _show_change(self, before: Phase) -> bool:
        if self._breaker.phase is before:
            return False
        kind, phase = self._kind.value, self._breaker.phase
        telemetry.show_breaker(kind=kind, backend=self.name, phase=phase)
        telemetry.count_breaker(kind=kind, backend=self.name, phase=phase)
        self._tell_change(before)
        return True

    def _tell_change(self, before: Phase) -> None:
        # One line when it goes and one when it is back: the trials between are in the figures.
        if before is Phase.CLOSED:
            logger.warning(
                "%s %s failed too often and is left alone for %d ms, then tried again",
                _WORDS[self._kind],
                self.name,
                self.terms.open_ms,
            )
        elif self._breaker.phase is Phase.CLOSED:
            logger.info("%s %s answers again; its calls go through", _WORDS[self._kind], self.name)


class Breakers:
    """Every upstream's breaker, or every model provider's; one that has no terms has none."""

    def __init__(
        self,
        terms: Mapping[str, BreakerTerms],
        *,
        clock: Clock,
        kind: CallKind = CallKind.TOOL,
    ) -> None:
        """Begin with all of them closed; `kind` is that of the calls which they let through."""
        self._clock = clock
        self._kind = kind
        self._breakers: dict[str, UpstreamBreaker] = {}
        self.adopt(terms)

    def adopt(self, terms: Mapping[str, BreakerTerms], *, anew: Collection[str] = ()) -> None:
        """Go by these terms from now on.

        One whose terms stay the same keeps its state, unless its upstream is `anew`: what
        another server did says nothing of this one.
        """
        kept = {name: one for name, one in self._breakers.items() if name not in anew}
        self._breakers = {
            name: kept[name]
            if name in kept and kept[name].terms == wanted
            else UpstreamBreaker(name, wanted, clock=self._clock, kind=self._kind)
            for name, wanted in terms.items()
        }

    def of(self, upstream: str) -> UpstreamBreaker | None:
        """Return an upstream's breaker, None if it has none."""
        return self._breakers.get(upstream)
