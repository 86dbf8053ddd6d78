"""From when on conversations are compacted, how far, and what is never touched."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase


class Fold(StrEnum):
    """What gives way: old results of tools, or whole old turns, which a report stands for."""

    RESULTS = "results"
    TURNS = "turns"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionTerms:
    """How the conversations of some agents with some models are compacted.

    `models` and `agents` are patterns of what is asked for and of who asks. Nothing happens to a
    conversation of `above_tokens` or less; of a longer one the last `keep_turns` stay as they
    are. Results of `pin_tools` are never touched, nor what holds one of `pin_patterns`.
    With `needs_reader` only conversations are compacted whose model is offered the tool that reads
    what gave way. `summary_chars_max` bounds what is said of one result, `report_tokens_max` the
    report.
    """

    above_tokens: int
    keep_turns: int = 4
    fold: Fold = Fold.RESULTS
    models: tuple[str, ...] = ("*",)
    agents: tuple[str, ...] = ("*",)
    pin_tools: tuple[str, ...] = ()
    pin_patterns: tuple[str, ...] = ()
    needs_reader: bool = False
    summary_chars_max: int = 240
    report_tokens_max: int = 2_000

    def pins(self, text: str, *, tool: str = "") -> bool:
        """Tell whether a text, which may be a tool's result, is never to be touched."""
        return any(fnmatchcase(tool, pattern) for pattern in self.pin_tools if tool) or any(
            fnmatchcase(text, f"*{pattern}*") for pattern in self.pin_patterns
        )


def terms_for(
    policy: Sequence[CompactionTerms], *, model: str, agent: str
) -> CompactionTerms | None:
    """Return the first terms that are meant for a call; None: it is left as it is."""
    for terms in policy:
        if any(fnmatchcase(model, pattern) for pattern in terms.models) and any(
            fnmatchcase(agent, pattern) for pattern in terms.agents
        ):
            return terms
    return None
