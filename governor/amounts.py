"""Integer amounts of the units that budgets are kept in."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from governor.errors import InvalidAmountError

# Half of what the signed 64-bit integers of SQLite and PostgreSQL hold: a limit and one call
# beside it fit. What a balance adds up over time is refused when it would not (`UnstorableError`).
AMOUNT_MAX = 2**62


class Unit(StrEnum):
    """What a budget can limit.

    Money is in millionths of a US dollar, time in milliseconds, memory in mebibytes held for
    a second, energy in millijoules (an estimate wherever no counter measures it).
    `context_tokens` are the tokens that tool results add to what the model must read. What
    `probe_1` to `probe_4` count is an operator's to say, who assigns a probe of theirs to each.
    `memory_bytes` and `memory_writes` are what is written into the experience memory,
    `memory_read_tokens` what is read out of it.
    """

    COST_MICROUSD = "cost_microusd"
    INPUT_TOKENS = "input_tokens"
    OUTPUT_TOKENS = "output_tokens"
    TOOL_CALLS = "tool_calls"
    TURNS = "turns"
    WALL_MS = "wall_ms"
    CPU_MS = "cpu_ms"
    MEMORY_MIB_S = "memory_mib_s"
    IO_BYTES = "io_bytes"
    EGRESS_BYTES = "egress_bytes"
    ENERGY_MJ = "energy_mj"
    CONTEXT_TOKENS = "context_tokens"
    PROBE_1 = "probe_1"
    PROBE_2 = "probe_2"
    PROBE_3 = "probe_3"
    PROBE_4 = "probe_4"
    MEMORY_BYTES = "memory_bytes"
    MEMORY_WRITES = "memory_writes"
    MEMORY_READ_TOKENS = "memory_read_tokens"


@dataclass(frozen=True, slots=True, eq=False)
class Amounts:
    """How much of each unit; a unit that is not named is not part of the statement.

    Raises:
        InvalidAmountError: a value is not an integer from 0 to `AMOUNT_MAX`.
    """

    _values: Mapping[Unit, int]

    def __post_init__(self) -> None:
        """Check and freeze the mapping."""
        for unit, value in self._values.items():
            if isinstance(value, bool) or not isinstance(value, int):
                message = f"{unit}: {value!r} is not an integer"
                raise InvalidAmountError(message)
            if not 0 <= value <= AMOUNT_MAX:
                message = f"{unit}: {value} is outside 0..{AMOUNT_MAX}"
                raise InvalidAmountError(message)
        object.__setattr__(self, "_values", MappingProxyType(dict(self._values)))

    def __contains__(self, unit: Unit) -> bool:
        """Tell whether the statement names `unit`."""
        return unit in self._values

    def __iter__(self) -> Iterator[tuple[Unit, int]]:
        """Yield each named unit with its amount."""
        return iter(self._values.items())

    def __eq__(self, other: object) -> bool:
        """Compare by value."""
        return isinstance(other, Amounts) and dict(self._values) == dict(other._values)

    def __hash__(self) -> int:
        """Hash by value."""
        return hash(frozenset(self._values.items()))

    @property
    def by_unit(self) -> Mapping[Unit, int]:
        """Return the named units with their amounts, as a mapping that nobody can change."""
        return self._values

    def of(self, unit: Unit) -> int:
        """Return the amount of `unit`, 0 where it is not named."""
        return self._values.get(unit, 0)

    def plus(self, other: "Amounts") -> "Amounts":
        """Return the sum, unit by unit."""
        total = dict(self._values)
        for unit, value in other.by_unit.items():
            total[unit] = total.get(unit, 0) + value
        if max(total.values(), default=0) > AMOUNT_MAX:
            return Amounts(total)  # which says what is wrong
        return Amounts.checked(total)

    @classmethod
    def checked(cls, values: dict[Unit, int]) -> "Amounts":
        """Return the amounts of `values`, which are known to be right and are given away.

        What was put together from other amounts need not be looked at again, least of all on
        the path of every call.
        """
        made = object.__new__(cls)
        object.__setattr__(made, "_values", MappingProxyType(values))
        return made

    def as_dict(self) -> dict[str, int]:
        """Return the amounts under the units' public names."""
        return {unit.value: value for unit, value in self._values.items()}


NOTHING = Amounts({})
