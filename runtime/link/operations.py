"""What one process of a sidecar may ask of another, by name, with the types of each operation."""

import hashlib
import inspect
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from governor import errors as governor_errors
from memory_store import errors as store_errors
from memory_store.errors import (
    AboveQuotaError,
    StoreError,
    StoreUnavailableError,
    UnstorableError,
    VersionConflictError,
)
from runtime.link.forms import Form, form_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One method of one book, as both ends know it.

    `is_owed` says that it ends or records what was begun, so that it has places in the queue
    which nothing else gets.
    """

    number: int
    book: str
    method: str
    names: tuple[str, ...]
    defaults: Mapping[str, object]
    forms: tuple[Form, ...]
    result: Form
    is_owed: bool
    signature: str = field(repr=False)

    def packed(self, args: tuple[Any, ...], named: Mapping[str, Any]) -> list[Any]:
        """Return the arguments of one use, in the order of the parameters.

        Raises:
            TypeError: they are not those of the operation.
        """
        rest = self.names[len(args) :]
        values = [*args, *(named[one] if one in named else self._default(one) for one in rest)]
        if len(values) != len(self.names) or len(args) + len(named) > len(self.names):
            message = f"{self.book}.{self.method} takes {', '.join(self.names)}"
            raise TypeError(message)
        return [
            value if form.plain is None else form.plain(value)
            for value, form in zip(values, self.forms, strict=True)
        ]

    def read(self, values: list[Any]) -> dict[str, Any]:
        """Return the arguments by name, from their bytes.

        Raises:
            ValueError: they are not what the operation takes.
        """
        return {
            name: form.read(value)
            for name, value, form in zip(self.names, values, self.forms, strict=True)
        }

    def _default(self, name: str) -> object:
        if name not in self.defaults:
            message = f"{self.book}.{self.method} needs {name}"
            raise TypeError(message)
        return self.defaults[name]


class Operations:
    """The operations that may be asked for; there is no other way in."""

    def __init__(self, books: Mapping[str, tuple[type, str]], *, owed: Iterable[str]) -> None:
        """Take for each book its class and the methods that are allowed, as words."""
        self._owed = frozenset(owed)
        self.all: list[Operation] = []
        for book, (kind, methods) in books.items():
            for method in methods.split():
                self.all.append(self._operation(book, kind, method))
        self.of_book = {
            book: {one.method: one for one in self.all if one.book == book} for book in books
        }
        whole = "\n".join(one.signature for one in self.all)
        self.edition = hashlib.sha256(whole.encode()).hexdigest()

    def _operation(self, book: str, kind: type, method: str) -> Operation:
        function = getattr(kind, method)
        assert inspect.iscoroutinefunction(function), f"{book}.{method} can be waited for"
        hints = typing.get_type_hints(function)
        result = hints.pop("return")
        parameters = list(inspect.signature(function).parameters.values())[1:]
        names = tuple(parameter.name for parameter in parameters)
        return Operation(
            number=len(self.all),
            book=book,
            method=method,
            names=names,
            defaults={
                parameter.name: parameter.default
                for parameter in parameters
                if parameter.default is not parameter.empty
            },
            forms=tuple(form_of(hints[name]) for name in names),
            result=form_of(result),
            is_owed=f"{book}.{method}" in self._owed,
            signature=f"{book}.{method}{inspect.signature(function)}",
        )


def _kinds_in(module: Any, root: type[Exception]) -> dict[str, type[Exception]]:
    return {
        name: kind
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, root)
    }


# Every error that a book may raise, by its name; others are told as a failure of the store.
_ERRORS = {
    **_kinds_in(store_errors, StoreError),
    **_kinds_in(governor_errors, governor_errors.GovernorError),
}
_WITH_FIGURES: Mapping[type[Exception], tuple[str, ...]] = {
    VersionConflictError: ("expected", "actual"),
    UnstorableError: ("names",),
}


def error_told(error: Exception) -> list[Any]:
    """Return an error as it is sent: its name, its message, and the figures that it has."""
    kind = type(error)
    if kind not in _ERRORS.values() or isinstance(error, AboveQuotaError):
        return [StoreUnavailableError.__name__, "the ledger process failed", {}]
    figures = {name: getattr(error, name) for name in _WITH_FIGURES.get(kind, ())}
    return [kind.__name__, str(error), figures]


def error_heard(name: str, message: str, figures: Mapping[str, Any]) -> Exception:
    """Return the error that was told."""
    kind = _ERRORS.get(name, StoreUnavailableError)
    if kind in _WITH_FIGURES:
        return kind(**{key: _fixed(value) for key, value in figures.items()})
    return kind(message)


def _fixed(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
