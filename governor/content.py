"""What a rule says of the content of calls: how large, held against what, without which secrets."""

from dataclasses import dataclass
from enum import StrEnum

_MIB = 1024 * 1024


class OutputSchema(StrEnum):
    """What becomes of a result that breaks its tool's own output schema."""

    ENFORCE = "enforce"
    REPORT = "report"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentTerms:
    """How large arguments and results may be, in bytes of UTF-8, and what is made of results.

    `redact` names the detectors whose findings are taken out of results.
    """

    arguments_bytes_max: int = _MIB
    result_bytes_max: int = 16 * _MIB
    output_schema: OutputSchema = OutputSchema.ENFORCE
    redact: tuple[str, ...] = ()


USUAL = ContentTerms()
