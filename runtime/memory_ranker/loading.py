"""Reading the shipped ranker, once for each process."""

import json
from functools import lru_cache
from pathlib import Path

from governor.errors import InvalidRankerError
from governor.retrieval.ranker import LinearRanker
from runtime.errors import RuntimeFaultError

RANKER_PATH = Path(__file__).with_name("ranker.json")


class MemoryRankerError(RuntimeFaultError):
    """The ranker of memory cannot be read; install the package anew."""


@lru_cache(maxsize=2)
def memory_ranker(path: Path = RANKER_PATH) -> LinearRanker:
    """Return the ranker in `path`.

    Raises:
        MemoryRankerError: the file is not there, or it is not one of weights.
    """
    try:
        fields = json.loads(path.read_bytes())
        return LinearRanker(with_meaning=fields["with_meaning"], by_words=fields["by_words"])
    except OSError as error:
        raise MemoryRankerError(f"{path}: cannot be read: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError, InvalidRankerError) as error:
        raise MemoryRankerError(f"{path}: is no file of weights: {error!r}") from error
