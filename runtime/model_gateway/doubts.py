"""Providers whose usage is missing or cannot be true: counted each time, and said once."""

import logging

from runtime.model_gateway.measured import Metered, UsageSource, doubt_of, source_of
from tool_gateway import telemetry

logger = logging.getLogger(__name__)


class Doubts:
    """Counts who said what calls used, and warns of each provider that is not believed."""

    def __init__(self) -> None:
        """Warn of nobody yet; providers are configured, so they stay few."""
        self._warned: set[str] = set()

    def note(self, provider: str, tokens: Metered) -> None:
        """Take the count of one call that reached `provider`."""
        source, doubt = source_of(tokens), doubt_of(tokens)
        telemetry.count_usage(backend=provider, which=source.value)
        is_odd = bool(doubt) and source is UsageSource.PROVIDER
        if is_odd:
            telemetry.count_usage(backend=provider, which="doubted")
        if (is_odd or source is UsageSource.BOUND) and provider not in self._warned:
            self._warned.add(provider)
            logger.warning(
                "the usage that provider %s reports is missing or cannot be true (%s); the records "
                "of its calls say who counted their tokens",
                provider,
                doubt,
            )
