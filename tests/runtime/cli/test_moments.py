"""Moments and cells as command lines and spreadsheets read them."""

import argparse
from datetime import UTC, datetime

import pytest

from runtime.cli.export import spreadsheet_safe
from runtime.cli.moments import after_month, moment_at

NOW = datetime(2026, 3, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("90m", datetime(2026, 3, 31, 10, 30, tzinfo=UTC)),
        ("2w", datetime(2026, 3, 17, 12, 0, tzinfo=UTC)),
        ("2026-02-28", datetime(2026, 2, 28, tzinfo=UTC)),
        ("2026-02-28T08:30Z", datetime(2026, 2, 28, 8, 30, tzinfo=UTC)),
        ("2026-02-28T08:30+02:00", datetime(2026, 2, 28, 6, 30, tzinfo=UTC)),
        ("this-month", datetime(2026, 3, 1, tzinfo=UTC)),
        ("last-month", datetime(2026, 2, 1, tzinfo=UTC)),
    ],
)
def test_moments_are_read_as_people_say_them(said: str, meant: datetime) -> None:
    assert moment_at(said, now=NOW) == int(meant.timestamp() * 1_000)


@pytest.mark.parametrize("said", ["", "soon", "99999w", "1969-12-31", "2026-13-01", "-5m", "5"])
def test_what_is_no_moment_is_told_with_those_that_are(said: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="2026-11-01T08:30Z, 90m, 24h"):
        moment_at(said, now=NOW)


def test_every_month_ends_where_the_next_begins() -> None:
    ends = [after_month(datetime(2026, month, 28, tzinfo=UTC)) for month in range(1, 13)]

    begins = [datetime(2026, month, 1, tzinfo=UTC) for month in range(2, 13)]
    assert ends == [*begins, datetime(2027, 1, 1, tzinfo=UTC)]


@pytest.mark.requirement("commands.export")
def test_no_cell_of_an_export_is_run_by_a_spreadsheet() -> None:
    strangers = ["=HYPERLINK(1)", "+1+cmd", "-2+3", "@SUM(A1)", "\tx"]

    assert [spreadsheet_safe(cell)[0] for cell in strangers] == ["'"] * 5
    assert [spreadsheet_safe(cell) for cell in ("-1.5", "12", "files__read")] == [
        "-1.5", "12", "files__read",
    ]  # fmt: skip
