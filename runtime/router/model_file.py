"""The bytes that a fitted router is kept in: versioned, checked, safe to read."""

from pathlib import Path

from governor.retrieval.vectors import StaticVectors
from runtime.errors import RuntimeFaultError
from runtime.router.predictor import RouterModel


class ModelFileError(RuntimeFaultError):
    """A router file is not usable: it is damaged, cut short or of another kind."""


class NewerModelFileError(ModelFileError):
    """A router file is from a newer Flyball; start that one, or fit the router again."""


class OtherVectorsError(ModelFileError):
    """A router file was fitted with other word vectors; fit the router again."""


def packed(model: RouterModel) -> bytes:
    """Return the bytes of a fitted router."""
    raise NotImplementedError


def unpacked(content: bytes, *, vectors: StaticVectors | None) -> RouterModel:
    """Return the router in these bytes.

    Raises:
        ModelFileError: the bytes are no router, or not all of it, or from a newer Flyball.
    """
    raise NotImplementedError


def save(model: RouterModel, path: Path) -> None:
    """Write a router to a file, all of it or nothing."""
    raise NotImplementedError


def load(path: Path, *, vectors: StaticVectors | None) -> RouterModel:
    """Return the router in a file.

    Raises:
        ModelFileError: the file cannot be read, or is no router that this Flyball can use.
    """
    raise NotImplementedError
