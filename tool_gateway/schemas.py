"""Arguments held against a tool's own schema before anything is spent on the call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import jsonschema
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable

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
            kind = validator_for(schema, default=jsonschema.Draft202012Validator)
            try:
                kind.check_schema(schema)
            except SchemaError as error:
                faults.append(SchemaFault(tool=entry.exposed, problem=error.message))
                continue
            self._validators[entry.exposed] = kind(schema)
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
        if error is None:
            return None
        where = "arguments" + "".join(f"[{part!r}]" for part in error.absolute_path)
        message = error.message
        if len(message) > _VALUE_CHARS_MAX:
            message = f"{message[:_VALUE_CHARS_MAX]}… (expected {error.validator}: "
            message += f"{error.validator_value!r:.80})"
        return f"{where}: {message}"
