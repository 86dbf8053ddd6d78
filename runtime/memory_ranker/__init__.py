"""The ranker of memory that is shipped: a weight for each thing that speaks for a text."""

from runtime.memory_ranker.loading import MemoryRankerError, memory_ranker

__all__ = ["MemoryRankerError", "memory_ranker"]
