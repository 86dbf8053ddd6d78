"""Reading the shipped word vectors, once for each process."""

import logging
import mmap
from functools import lru_cache
from pathlib import Path

from governor.errors import InvalidVectorsError
from governor.retrieval.vector_file import unpacked
from governor.retrieval.vectors import StaticVectors
from runtime.errors import RuntimeFaultError
from tool_gateway import telemetry

VECTORS_PATH = Path(__file__).with_name("english.vectors")

logger = logging.getLogger(__name__)


class WordVectorsError(RuntimeFaultError):
    """The word vectors cannot be read; install the package anew."""


@lru_cache(maxsize=2)
def word_vectors(path: Path = VECTORS_PATH) -> StaticVectors:
    """Return the vectors in `path`, mapped into memory: pages come in as they are used.

    Raises:
        WordVectorsError: the file is not there, or it is not one of word vectors.
    """
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return unpacked(memoryview(mapped))
    except (OSError, ValueError) as error:  # an empty file cannot be mapped
        raise WordVectorsError(f"{path}: cannot be read: {error}") from error
    except InvalidVectorsError as error:
        raise WordVectorsError(f"{path}: is no file of word vectors: {error}") from error


def vectors_if_any(path: Path = VECTORS_PATH) -> StaticVectors | None:
    """Return the vectors, or None where they cannot be read: a help and no duty.

    The failure is logged and counted.
    """
    try:
        return word_vectors(path)
    except WordVectorsError as error:
        logger.warning("texts are compared by their words alone: %s", error)
        telemetry.count_failure("word_vectors")
        return None
