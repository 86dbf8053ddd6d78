"""Which long conversations are compacted, as `flyball.toml` says it."""

from typing import Annotated

from pydantic import Field

from runtime.configuration.table import Flag, Positive, Table
from runtime.model_gateway.compaction.terms import CompactionTerms, Fold

_TOKENS_MIN = 1_000
_TOKENS_MAX = 100_000_000
_Pattern = Annotated[str, Field(min_length=1, max_length=200)]
_Patterns = Annotated[tuple[_Pattern, ...], Field(max_length=100)]


class CompactionTable(Table):
    """One set of terms; of all that are written, the first that fits a call decides."""

    models: _Patterns = ("*",)
    agents: _Patterns = ("*",)
    above_tokens: Annotated[int, Field(strict=True, ge=_TOKENS_MIN, le=_TOKENS_MAX)]
    keep_turns: Positive = 4
    fold: Fold = Fold.RESULTS
    pin_tools: _Patterns = ()
    pin_patterns: _Patterns = ()
    needs_reader: Flag = False
    summary_chars_max: Annotated[int, Field(strict=True, ge=0, le=4_000)] = 240
    report_tokens_max: Annotated[int, Field(strict=True, ge=200, le=_TOKENS_MAX)] = 2_000

    def terms(self) -> CompactionTerms:
        """Return the terms that the table says."""
        return CompactionTerms(
            models=self.models,
            agents=self.agents,
            above_tokens=self.above_tokens,
            keep_turns=self.keep_turns,
            fold=self.fold,
            pin_tools=self.pin_tools,
            pin_patterns=self.pin_patterns,
            needs_reader=self.needs_reader,
            summary_chars_max=self.summary_chars_max,
            report_tokens_max=self.report_tokens_max,
        )
