"""Values held against a tool's own schemas: arguments before anything is spent on the call."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from typing import Any, cast

import jsonschema_rs
from jsonschema.exceptions import SchemaError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

from governor.ids import ToolName, UpstreamName
from tool_gateway.catalog import Catalog, ToolEntry
from tool_gateway.results import ToolResult
from tool_gateway.schema_bounds import (
    REFERENCES,
    USUAL_KIND,
    TooMuchWorkError,
    bounded,
    counted_steps,
    fault_of,
    foreign_reference,
    linear_options,
)

_VALUE_CHARS_MAX = 120
# Of these the one is told that says most.
_ERRORS_COMPARED_MAX = 20


class Which(StrEnum):
    """Which of a tool's schemas."""

    INPUT = "input"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFault:
    """A schema that an upstream declared and that cannot be used, or did not declare."""

    upstream: UpstreamName
    tool: ToolName
    which: Which
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """What is wrong with a value; not `is_certain` where it is only that nobody could tell."""

    words: str
    is_certain: bool = True


class CheckedSchema:
    """One compiled schema, whose references stay inside of it.

    Almost every value fits, and that is asked of a validator in compiled code; what is wrong
    with the others is said by the one in Python.
    """

    def __init__(self, schema: Mapping[str, object]) -> None:
        """Compile `schema`.

        Raises:
            SchemaError: it is malformed, or asks for too much.
        """
        if (fault := fault_of(schema)) is not None:
            raise SchemaError(fault)
        self._explains = _compiled(dict(schema))
        self._fits = None if _refers(schema) else _compiled_fast(dict(schema))

    def problem_with(self, value: object, *, where: str) -> str | None:
        """Return what is wrong with `value`: where, what was expected, what came; or None."""
        found = self.finding(value, where=where)
        return None if found is None else found.words

    def finding(self, value: object, *, where: str) -> Objection | None:
        """Return what is wrong with `value`, None if nothing is."""
        if self._fits is not None and self._fits(value):
            return None
        try:
            with counted_steps():
                found = self._explains.iter_errors(cast("Any", value))
                error = best_match(islice(found, _ERRORS_COMPARED_MAX))
        except Unresolvable as unresolvable:
            words = f"the tool's own schema cannot be resolved: {unresolvable}"
            return Objection(words=words, is_certain=False)
        except RecursionError:
            words = "the tool's own schema refers to itself without an end"
            return Objection(words=words, is_certain=False)
        except TooMuchWorkError:
            # Where it was told that the value does not fit, only the place is not found.
            words = f"{where}: it takes too long to hold it against the tool's own schema"
            return Objection(words=words, is_certain=self._fits is not None)
        if error is None:
            return None
        where += "".join(f"[{part!r}]" for part in error.absolute_path)
        message = error.message
        if len(message) > _VALUE_CHARS_MAX:
            message = f"{message[:_VALUE_CHARS_MAX]}… (expected {error.validator}: "
            message += f"{error.validator_value!r:.80})"
        return Objection(words=f"{where}: {message}")


class ToolSchemas:
    """The compiled schemas of a catalog; a malformed schema checks nothing."""

    def __init__(self, catalog: Catalog) -> None:
        """Compile every schema and collect those that cannot be, or are not there."""
        self._inputs: dict[str, CheckedSchema] = {}
        self._outputs: dict[str, CheckedSchema] = {}
        faults: list[SchemaFault] = []
        for entry in catalog:
            if "inputSchema" not in entry.definition:
                faults.append(_fault(entry, Which.INPUT, "it is not declared"))
            for which, compiled in ((Which.INPUT, self._inputs), (Which.OUTPUT, self._outputs)):
                faults.extend(_take(entry, which, compiled))
        self.faults = tuple(faults)

    def problem_with(self, tool: ToolName, arguments: Mapping[str, object]) -> str | None:
        """Return what is wrong with `arguments`: where, what was expected, what came; or None."""
        schema = self._inputs.get(tool)
        return None if schema is None else schema.problem_with(dict(arguments), where="arguments")

    def broken_promise(self, tool: ToolName, result: ToolResult) -> Objection | None:
        """Return how a result breaks what its tool declares of it; None if it does not.

        An error has no structure to keep to, and neither has what is no outcome yet.
        """
        schema = self._outputs.get(tool)
        if schema is None or result.is_error or result.is_interim:
            return None
        found = schema.finding(result.structured, where="structuredContent")
        if found is not None and result.structured is None:
            return Objection(words="structuredContent: it is required, and there is none")
        return found


def _take(
    entry: ToolEntry, which: Which, compiled: dict[str, CheckedSchema]
) -> Iterator[SchemaFault]:
    """Compile one schema of a tool, or yield why that cannot be."""
    declared = entry.definition.get(f"{which}Schema")
    if declared is None:
        return
    if not isinstance(declared, Mapping):
        yield _fault(entry, which, f"expected an object, got {declared!r:.80}")
        return
    try:
        compiled[entry.exposed] = CheckedSchema(declared)
    except SchemaError as error:
        yield _fault(entry, which, error.message)
        return
    if (foreign := foreign_reference(declared)) is not None:
        yield _fault(entry, which, f"it refers to {foreign!r:.200}, which is never fetched")


def _fault(entry: ToolEntry, which: Which, why: str) -> SchemaFault:
    return SchemaFault(upstream=entry.backend, tool=entry.exposed, which=which, why=why)


def _refers(schema: object) -> bool:
    """Tell whether a schema refers to another, or to a part of itself.

    Only the validator in Python says of a reference that it leads nowhere or has no end.
    """
    if isinstance(schema, Mapping):
        return any(
            key in REFERENCES or key == "$schema" or _refers(value) for key, value in schema.items()
        )
    return isinstance(schema, list) and any(map(_refers, schema))


def _compiled_fast(schema: dict[str, object]) -> Callable[[object], bool] | None:
    """Return what tells whether a value fits; None where that is left to the other validator."""
    try:
        is_valid = jsonschema_rs.Draft202012Validator(
            schema, pattern_options=linear_options()
        ).is_valid
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
    kind: type[Validator] = bounded(validator_for(schema, default=USUAL_KIND))
    try:
        # Asked in compiled code first: a stranger may send a thousand long schemas.
        if not jsonschema_rs.meta.is_valid(schema):
            kind.check_schema(schema)
    except RecursionError as error:
        message = "it is nested too deeply"
        raise SchemaError(message) from error
    # Without a registry the library would fetch what a `$ref` names: URLs and local files.
    return kind(schema, registry=EMPTY_REGISTRY)
