"""The time that a question names is read, and texts of that time are found by it."""

from datetime import date

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.retrieval.analysis import index_terms
from governor.retrieval.moments import Moment, fits, moment_in
from governor.retrieval.query import query_parts
from governor.retrieval.shelf import Shelf, ShelfEntry

EPOCH = date(1970, 1, 1)
DAYS = st.dates(min_value=date(1900, 1, 1), max_value=date(2099, 12, 31))


def days_of(*dates: date) -> np.ndarray:
    return np.array([(one - EPOCH).days for one in dates], dtype=np.int32)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("What did she show on 13 October, 2023?", Moment(year=2023, month=10, day=13)),
        ("What happened on October 13th, 2023?", Moment(year=2023, month=10, day=13)),
        ("What happened on 2023-10-13?", Moment(year=2023, month=10, day=13)),
        ("1:56 pm on 8 May, 2023", Moment(year=2023, month=5, day=8)),
        ("Who ran in June 2022?", Moment(year=2022, month=6)),
        ("Who ran in June?", Moment(month=6)),
        ("Who ran in 2021?", Moment(year=2021)),
        ("2024年04月01日发生了什么", Moment(year=2024, month=4, day=1)),
        ("2月5号发生了什么", Moment(month=2, day=5)),
        ("What may I do with 2023 stamps", Moment(year=2023)),
        ("May I march?", None),
        ("On 2023-99-99 or at 5 o'clock", Moment(year=2023)),
        ("", None),
    ],
)
def test_the_time_that_is_named_is_read(text: str, moment: Moment | None) -> None:
    assert moment_in(text) == moment


@given(DAYS)
def test_every_date_is_read_back_and_fits_itself_alone(day: date) -> None:
    moment = moment_in(f"on {day.isoformat()}")
    near = days_of(
        day, date.fromordinal(day.toordinal() - 1), date.fromordinal(day.toordinal() + 3)
    )

    assert moment == Moment(year=day.year, month=day.month, day=day.day)
    assert fits(moment, near).tolist() == [1.0, 0.0, 0.5]


@given(DAYS, DAYS)
def test_a_month_fits_all_its_days(asked: date, day: date) -> None:
    is_same = (asked.year, asked.month) == (day.year, day.month)
    fit = fits(Moment(year=asked.year, month=asked.month), days_of(day))[0]

    assert (fit == 1.0) == is_same


@pytest.mark.requirement("memory.found-by-time")
def test_what_was_told_at_the_time_that_is_named_comes_first() -> None:
    shelf = Shelf(axes=0)
    dates = (date(2023, 5, 3), date(2023, 6, 4), date(2024, 5, 3))
    shelf.add(
        [
            ShelfEntry(
                number=number,
                session="",
                actor="",
                at_ms=(day - EPOCH).days * 86_400_000,
                terms=index_terms("We went sailing"),
                traits=0,
            )
            for number, day in enumerate(dates)
        ]
    )

    for number, said in enumerate(("on 3 May, 2023", "in June 2023", "in 2024")):
        found = shelf.search(query_parts(f"Who went sailing {said}?"), most=1)
        assert found[0][0] == number


def test_a_clock_that_is_far_off_harms_nothing() -> None:
    shelf = Shelf(axes=0)
    shelf.add(
        [
            ShelfEntry(number=at, session="", actor="", at_ms=ms, terms="sail", traits=0)
            for at, ms in enumerate((-(2**62), 0, 2**62))
        ]
    )

    assert len(shelf.search(query_parts("sailing in 1970"), most=5)) == 3
