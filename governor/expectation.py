"""What a call is expected to use, learned from the calls that did the same kind of work.

A kind of work is a tool, the class of its command and the repository that it runs in; where that
was seen too seldom, the same in any repository counts. Where that was, too, nothing is expected:
the rule's limits stand, and the call is told that nobody knows.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from governor.command_class import CommandClass
from governor.errors import InvalidPolicyError
from governor.ids import TenantId, ToolName
from governor.sketch import EMPTY, Sketch

_PERMILLE = 1_000


class Measure(StrEnum):
    """What is learned of a call."""

    WALL_MS = "wall_ms"
    CPU_MS = "cpu_ms"
    MEMORY_MIB_S = "memory_mib_s"
    MEMORY_PEAK_KIB = "memory_peak_kib"


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A kind of work, of one tenant; an empty repository stands for all of them."""

    tenant: TenantId
    tool: ToolName
    kind: CommandClass
    repository: str = ""

    @property
    def anywhere(self) -> "Work":
        """Return the same in any repository."""
        return replace(self, repository="")


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the calls of one kind of work have used, measure by measure."""

    sketches: Mapping[Measure, Sketch] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return of how many calls something is known."""
        return max((sketch.count for sketch in self.sketches.values()), default=0)

    def with_call(self, used: Mapping[Measure, int]) -> "Known":
        """Return what is known with one more call."""
        added = {one: self.sketches.get(one, EMPTY).with_value(used[one]) for one in used}
        return Known(sketches={**self.sketches, **added})

    def plus(self, other: "Known") -> "Known":
        """Return what both know together."""
        return Known(
            sketches={
                one: self.sketches.get(one, EMPTY).plus(other.sketches.get(one, EMPTY))
                for one in {**self.sketches, **other.sketches}
            }
        )


NOTHING_KNOWN = Known()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectationTerms:
    """How an expectation is read: from how many calls on, at which quantile, with what to spare.

    Where it `holds` for budgets, that is what is reserved instead of the limit.

    Raises:
        InvalidPolicyError: a figure is out of range.
    """

    samples_min: int = 30
    quantile_permille: int = 950
    margin_permille: int = 1_250
    holds: bool = True

    def __post_init__(self) -> None:
        """Refuse figures that mean nothing."""
        if self.samples_min < 1:
            raise InvalidPolicyError(f"samples_min: {self.samples_min} is not above 0")
        if not 0 < self.quantile_permille <= _PERMILLE:
            raise InvalidPolicyError(f"quantile: {self.quantile_permille} is outside 1..1000")
        if self.margin_permille < _PERMILLE:
            raise InvalidPolicyError(f"margin: {self.margin_permille} takes away from the quantile")

    def read(self, sketch: Sketch) -> int | None:
        """Return what is expected from a sketch; None where it knows too few calls."""
        if sketch.count < self.samples_min:
            return None
        quantile = sketch.quantile(self.quantile_permille)
        return None if quantile is None else -(-quantile * self.margin_permille // _PERMILLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a call is expected to use; empty while nobody knows.

    `calls` is how many the best known kind of its work was learned from.
    """

    used: Mapping[Measure, int] = field(default_factory=dict)
    calls: int = 0


def expected(known: Known, anywhere: Known, terms: ExpectationTerms) -> Expectation:
    """Return what is expected of a call, from its own kind of work, else from it anywhere."""
    used: dict[Measure, int] = {}
    for measure in Measure:
        for one in (known, anywhere):
            figure = terms.read(one.sketches.get(measure, EMPTY))
            if figure is not None:
                used[measure] = figure
                break
    calls = known.count if known.count >= terms.samples_min else max(known.count, anywhere.count)
    return Expectation(used=used, calls=calls)
