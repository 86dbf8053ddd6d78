"""What compares vectors, as it is asked for."""

from enum import StrEnum


class VectorIndex(StrEnum):
    """What compares the vectors of a namespace too large for a shelf."""

    AUTO = "auto"
    SKETCH = "sketch"
    PGVECTOR = "pgvector"
