"""The keys of rules, and of `[tools]` for all of them, about what calls carry to and fro."""

from typing import Annotated

from pydantic import Field

from governor.amounts import AMOUNT_MAX
from governor.content import USUAL, ContentTerms, OutputSchema
from runtime.configuration.table import Name, Table

_Bytes = Annotated[int, Field(strict=True, ge=256, le=AMOUNT_MAX)]


class ContentTable(Table):
    """How large arguments and results may be, and what is made of results; unset: as usual."""

    arguments_bytes_max: _Bytes | None = None
    result_bytes_max: _Bytes | None = None
    output_schema: OutputSchema | None = None
    redact_results: Annotated[tuple[Name, ...], Field(max_length=100)] | None = None


def content_of(table: ContentTable, usual: ContentTerms = USUAL) -> ContentTerms:
    """Return what a table says, and `usual` where it says nothing."""
    arguments, result = table.arguments_bytes_max, table.result_bytes_max
    return ContentTerms(
        arguments_bytes_max=usual.arguments_bytes_max if arguments is None else arguments,
        result_bytes_max=usual.result_bytes_max if result is None else result,
        output_schema=usual.output_schema if table.output_schema is None else table.output_schema,
        redact=usual.redact if table.redact_results is None else table.redact_results,
    )
