"""Arguments held against a tool's own schema before anything is spent on the call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import jsonschema
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

from governor.ids import ToolName
from tool_gateway.catalog import Catalog

_VALUE_CHARS_MAX = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFault:
    """A schema that an upstream declared and that cannot be used."""

    tool: ToolName
    problem: str


class ArgumentSchemas:
    """The compiled argument schemas of a catalog; a malformed schema checks nothing."""

    def __init__(self, catalog: Catalog) -> None:
        """Compile every schema and collect those that cannot be."""
        self._validators: dict[str, Validator] = {}
        faults = []
        for entry in catalog:
            schema = dict(entry.input_schema)
            try:
                self._validators[entry.exposed] = _compiled(schema)
            except SchemaError as error:
                faults.append(SchemaFault(tool=entry.exposed, problem=error.message))
        self.faults = tuple(faults)

    def problem_with(self, tool: ToolName, arguments: Mapping[str, object]) -> str | None:
        """Return what is wrong with `arguments`: where, what was expected, what came; or None."""
        validator = self._validators.get(tool)
        if validator is None:
            return None
        try:
            error = best_match(validator.iter_errors(cast("Any", dict(arguments))))
        except Unresolvable as unresolvable:
            return f"the tool's own schema cannot be resolved: {unresolvable}"
        except RecursionError:
            return "the tool's own schema refers to itself without an end"
        if error is None:
            return None
        where = "arguments" + "".join(f"[{part!r}]" for part in error.absolute_path)
        message = error.message
        if len(message) > _VALUE_CHARS_MAX:
            message = f"{message[:_VALUE_CHARS_MAX]}… (expected {error.validator}: "
            message += f"{error.validator_value!r:.80})"
        return f"{where}: {message}"


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
