"""Windows as JSON."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from governor.window import Calendar, Fixed, Lifetime, Period, Sliding, Window
from memory_store.budget_rows import WINDOW_SECONDS_MAX
from memory_store.rows import calendar
from runtime.admin.shapes.fields import Label, Shape

_Seconds = Annotated[
    int,
    Field(
        strict=True,
        ge=1,
        le=WINDOW_SECONDS_MAX,
        description="at most ten years; what is longer is a lifetime",
    ),
]


class Every(Shape):
    """Back-to-back windows of one length, aligned to the Unix epoch."""

    every_s: _Seconds


class Last(Shape):
    """The last so many seconds, which move on in `buckets` steps."""

    last_s: _Seconds
    buckets: Annotated[int, Field(strict=True, ge=1, le=1000)] = 60


class ByCalendar(Shape):
    """Days, weeks or months as the clocks of one time zone show them."""

    calendar: Period
    time_zone: Label = "UTC"


Named = Literal["lifetime"]
AnyWindow = Named | Every | Last | ByCalendar


def _checked_window(value: object) -> object:
    """Return `value` if it is a window; a union would name branches instead of the field."""
    match value:
        case "lifetime" | Every() | Last() | ByCalendar():
            return value
        case {"last_s": _}:
            return Last.model_validate(value)
        case {"calendar": _}:
            return ByCalendar.model_validate(value)
        case dict():
            return Every.model_validate(value)
        case _:
            raise PydanticCustomError(
                "window",
                'Give "lifetime", {{"every_s": seconds}} with a whole number of them, from 1 to '
                '{seconds_max}, {{"last_s": seconds}} for a window that slides, or '
                '{{"calendar": "day", "time_zone": "Europe/Berlin"}}',
                {"seconds_max": WINDOW_SECONDS_MAX},
            )


WindowShape = Annotated[AnyWindow, BeforeValidator(_checked_window)]


def window_of(shape: AnyWindow) -> Window:
    """Return the window that `shape` describes.

    Raises:
        InvalidBudgetError: there is no such time zone, or the length does not divide.
    """
    match shape:
        case Every():
            return Fixed(shape.every_s * 1000)
        case Last():
            return Sliding(length_ms=shape.last_s * 1000, buckets=shape.buckets)
        case ByCalendar():
            return calendar(shape.calendar, shape.time_zone)
        case _:
            return Lifetime()


def window_shape(window: Window) -> AnyWindow:
    """Return how `window` is written."""
    match window:
        case Lifetime():
            return "lifetime"
        case Fixed(length_ms):
            return Every(every_s=length_ms // 1000)
        case Sliding():
            return Last(last_s=window.length_ms // 1000, buckets=window.buckets)
        case Calendar():
            return ByCalendar(calendar=window.period, time_zone=window.time_zone)
