"""How much may be written: the bounds that every way into the memory has."""

from memory_store.experiences.values import WriteLimits
from runtime.configuration.memory import MemoryTerms


def limits_of(terms: MemoryTerms, *, now_ms: int) -> WriteLimits:
    """Return the bounds of a write at a time: of one experience, its tenant, and its lane."""
    return WriteLimits(
        content_bytes_max=terms.item_bytes_max,
        tenant_bytes_max=terms.tenant_bytes_max,
        now_ms=now_ms,
    )
