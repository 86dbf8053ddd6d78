"""Values held against a tool's own schemas: arguments before anything is spent on the call."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import jsonschema
import jsonschema_rs
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

from governor.ids import ToolName
from tool_gateway.catalog import Catalog

_VALUE_CHARS_MAX = 120
_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFault:
    """A schema that an upstream declared and that cannot be used."""

    tool: ToolName
    problem: str


class CheckedSchema:
    """One compiled schema, whose references stay inside of it.

    Almost every value fits, and that is asked of a validator in compiled code; what is wrong
    with the others is said by the one in Python.
    """

    def __init__(self, schema: Mapping[str, object]) -> None:
        """Compile `schema`.

        Raises:
            SchemaError: it is malformed.
        """
        self._explains = _compiled(dict(schema))
        self._fits = None if _refers(schema) else _compiled_fast(dict(schema))

    def problem_with(self, value: object, *, where: str) -> str | None:
        """Return what is wrong with `value`: where, what was expected, what came; or None."""
        if self._fits is not None and self._fits(value):
            return None
        try:
            error = best_match(self._explains.iter_errors(cast("Any", value)))
        except Unresolvable as unresolvable:
            return f"the tool's own schema cannot be resolved: {unresolvable}"
        except RecursionError:
            return "the tool's own schema refers to itself without an end"
        if error is None:
            return None
        where += "".join(f"[{part!r}]" for part in error.absolute_path)
        message = error.message
        if len(message) > _VALUE_CHARS_MAX:
            message = f"{message[:_VALUE_CHARS_MAX]}… (expected {error.validator}: "
            message += f"{error.validator_value!r:.80})"
        return f"{where}: {message}"


class ArgumentSchemas:
    """The compiled argument schemas of a catalog; a malformed schema checks nothing."""

    def __init__(self, catalog: Catalog) -> None:
        """Compile every schema and collect those that cannot be."""
        self._schemas: dict[str, CheckedSchema] = {}
        faults = []
        for entry in catalog:
            try:
                self._schemas[entry.exposed] = CheckedSchema(entry.input_schema)
            except SchemaError as error:
                faults.append(SchemaFault(tool=entry.exposed, problem=error.message))
        self.faults = tuple(faults)

    def problem_with(self, tool: ToolName, arguments: Mapping[str, object]) -> str | None:
        """Return what is wrong with `arguments`: where, what was expected, what came; or None."""
        schema = self._schemas.get(tool)
        return None if schema is None else schema.problem_with(dict(arguments), where="arguments")


def _refers(schema: object) -> bool:
    """Tell whether a schema refers to another, or to a part of itself.

    Only the validator in Python says of a reference that it leads nowhere or has no end.
    """
    if isinstance(schema, Mapping):
        return any(
            key in _REFERENCES or key == "$schema" or _refers(value)
            for key, value in schema.items()
        )
    return isinstance(schema, list) and any(map(_refers, schema))


def _compiled_fast(schema: dict[str, object]) -> Callable[[object], bool] | None:
    """Return what tells whether a value fits; None where that is left to the other validator."""
    try:
        is_valid = jsonschema_rs.Draft202012Validator(schema).is_valid
    except (ValueError, RecursionError):
        return None

    def fits(value: object) -> bool:
        try:
            return is_valid(value)
        except ValueError:  # a number or a type that has no counterpart there
            return False

    return fits


def _compiled(schema: dict[str, object]) -> Validator:
    """Return a validator that fetches nothing: references stay inside of the schema.

    Raises:
        SchemaError: the schema is malformed.
    """
    dialect = schema.get("$schema", "")
    if not isinstance(dialect, str):
        message = f"$schema: {dialect!r:.80} is not a string"
        raise SchemaError(message)
    kind = validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except RecursionError as error:
        message = "it is nested too deeply"
        raise SchemaError(message) from error
    # Without a registry the library would fetch what a `$ref` names: URLs and local files.
    return kind(schema, registry=EMPTY_REGISTRY)
