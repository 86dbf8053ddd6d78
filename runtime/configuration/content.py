"""The keys of rules, and of `[tools]` for all of them, about what calls carry to and fro."""

from collections.abc import Iterable, Sequence
from typing import Annotated

from pydantic import Field, field_validator

from governor.amounts import AMOUNT_MAX
from governor.content import USUAL, ContentTerms, OutputSchema
from runtime.configuration.table import Name, Table
from tool_gateway.credentials import BUILT_IN, PATTERN_CHARS_MAX, Detector, built_in, detector

_Bytes = Annotated[int, Field(strict=True, ge=256, le=AMOUNT_MAX)]


class ContentTable(Table):
    """How large arguments and results may be, and what is made of results; unset: as usual."""

    arguments_bytes_max: _Bytes | None = None
    result_bytes_max: _Bytes | None = None
    output_schema: OutputSchema | None = None
    redact_results: Annotated[tuple[Name, ...], Field(max_length=100)] | None = None


class RedactionTable(Table):
    """A detector of secrets of the operator's own."""

    name: Name
    pattern: Annotated[str, Field(min_length=1, max_length=PATTERN_CHARS_MAX)]

    @field_validator("name")
    @classmethod
    def _is_free(cls, value: str) -> str:
        if value in BUILT_IN:
            raise ValueError("this name belongs to a built-in detector; choose another")
        return value

    @field_validator("pattern")
    @classmethod
    def _is_usable(cls, value: str) -> str:
        detector("pattern", value)
        return value


def unknown_detectors(
    tables: Iterable[ContentTable], own: Sequence[RedactionTable]
) -> frozenset[str]:
    """Return the names in `redact_results` that no detector has."""
    named = {name for table in tables for name in table.redact_results or ()}
    return frozenset(named - BUILT_IN - {table.name for table in own})


def detectors_of(own: Sequence[RedactionTable]) -> dict[str, Detector]:
    """Return every detector by its name: the built-in ones and those of the file."""
    return {**built_in(), **{table.name: detector(table.name, table.pattern) for table in own}}


def content_of(table: ContentTable, usual: ContentTerms = USUAL) -> ContentTerms:
    """Return what a table says, and `usual` where it says nothing."""
    arguments, result = table.arguments_bytes_max, table.result_bytes_max
    return ContentTerms(
        arguments_bytes_max=usual.arguments_bytes_max if arguments is None else arguments,
        result_bytes_max=usual.result_bytes_max if result is None else result,
        output_schema=usual.output_schema if table.output_schema is None else table.output_schema,
        redact=usual.redact if table.redact_results is None else table.redact_results,
    )
