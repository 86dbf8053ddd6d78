"""Which answers of models are kept, as `flyball.toml` says it."""

from runtime.configuration.table import Positive, Table
from runtime.model_gateway.kept_answers import Keeping, KeptFor, KeptPolicy

_MS_PER_S = 1_000
_BYTES_PER_KIB = 1_024


class KeptAnswersTable(Table):
    """Answers to requests that are made again word for word; off unless `keep` says which."""

    keep: Keeping = Keeping.OFF
    kept_for: KeptFor = KeptFor.AGENT
    ttl_s: Positive = 3_600
    entries_max: Positive = 1_000
    memory_mib_max: Positive = 64
    answer_kib_max: Positive = 1_024

    def policy(self) -> KeptPolicy:
        """Return the policy that the table says."""
        return KeptPolicy(
            keeping=self.keep,
            kept_for=self.kept_for,
            ttl_ms=self.ttl_s * _MS_PER_S,
            entries_max=self.entries_max,
            bytes_max=self.memory_mib_max * _BYTES_PER_KIB * _BYTES_PER_KIB,
            answer_bytes_max=self.answer_kib_max * _BYTES_PER_KIB,
        )
