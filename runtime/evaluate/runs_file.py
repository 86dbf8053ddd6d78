"""Reading recorded runs from a CSV file, with errors that name the line and the column."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from governor.turns import PastRun
from runtime.errors import RuntimeFaultError

COLUMNS = ("model", "instance_id", "resolved", "cost_usd", "api_calls")
RUNS_MAX = 200_000
_TURNS_MAX = 1_000_000
_COST_USD_MAX = Decimal(1_000_000)
_TEXT_MAX = 500
_MICRO = 1_000_000
_TRUTHS = {"1": True, "true": True, "0": False, "false": False}


class RunsFileError(RuntimeFaultError):
    """The file of runs is not usable; the message names the line and the column."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """One line of the file: which model ran on which task, and how that went."""

    model: str
    instance_id: str
    run: PastRun


def read_runs(path: Path) -> list[RecordedRun]:
    """Return the runs in `path`, in its order; columns that are not known are ignored.

    Raises:
        RunsFileError: the file cannot be read, or a line of it is not usable.
    """
    try:
        # utf-8-sig: spreadsheets put a mark before the first column's name.
        with path.open(encoding="utf-8-sig", newline="") as file:
            return list(_runs(path, file))
    except OSError as error:
        raise RunsFileError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise RunsFileError(f"{path}: is not UTF-8 text (byte {error.start})") from error


def _runs(path: Path, lines: Iterator[str]) -> Iterator[RecordedRun]:
    reader = csv.reader(lines, strict=True)
    try:
        header = [name.strip() for name in next(reader, [])]
        places = _places(path, header)
        count = 0
        for row in reader:
            if not row:
                continue
            where = f"{path}, line {reader.line_num}"
            if len(row) != len(header):
                raise RunsFileError(f"{where}: has {len(row)} columns, the header {len(header)}")
            count += 1
            if count > RUNS_MAX:
                raise RunsFileError(f"{where}: more than {RUNS_MAX} runs; evaluate a sample")
            yield _run(where, [row[place].strip() for place in places])
    except csv.Error as error:
        raise RunsFileError(f"{path}, line {reader.line_num}: {error}") from error
    if not count:
        raise RunsFileError(f"{path}, line 2: no runs follow the header")


def _places(path: Path, header: Sequence[str]) -> list[int]:
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise RunsFileError(
            f"{path}, line 1: column {', '.join(missing)} is missing; "
            f"the header should hold {','.join(COLUMNS)}"
        )
    twice = [name for name in COLUMNS if header.count(name) > 1]
    if twice:
        raise RunsFileError(f"{path}, line 1: column {', '.join(twice)} is there twice")
    return [header.index(name) for name in COLUMNS]


def _run(where: str, values: Sequence[str]) -> RecordedRun:
    model, instance_id, resolved, cost_usd, api_calls = values
    return RecordedRun(
        model=_text(where, "model", model),
        instance_id=_text(where, "instance_id", instance_id),
        run=PastRun(
            turns=int(_number(where, "api_calls", api_calls, most=Decimal(_TURNS_MAX), whole=True)),
            cost_microusd=round(
                _number(where, "cost_usd", cost_usd, most=_COST_USD_MAX, whole=False) * _MICRO
            ),
            is_solved=_truth(where, resolved),
        ),
    )


def _text(where: str, column: str, value: str) -> str:
    if not value:
        raise RunsFileError(f"{where}, column {column}: is empty")
    if len(value) > _TEXT_MAX:
        raise RunsFileError(f"{where}, column {column}: is longer than {_TEXT_MAX} characters")
    return value


def _truth(where: str, value: str) -> bool:
    truth = _TRUTHS.get(value.lower())
    if truth is None:
        raise RunsFileError(f"{where}, column resolved: {value[:40]!r} is neither 0 nor 1")
    return truth


def _number(where: str, column: str, value: str, *, most: Decimal, whole: bool) -> Decimal:
    try:
        number = Decimal(value)
    except InvalidOperation:
        number = Decimal("NaN")
    # NaN compares with nothing, so it is asked for by name.
    is_finite = number.is_finite()
    if not is_finite or (whole and number != number.to_integral_value()):
        kind = "whole number" if whole else "number"
        raise RunsFileError(f"{where}, column {column}: {value[:40]!r} is not a {kind}")
    least = 1 if whole else 0
    if not least <= number <= most:
        raise RunsFileError(
            f"{where}, column {column}: {value[:40]!r} is not between {least} and {most}"
        )
    return number
