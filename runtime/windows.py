"""Windows as administrators write them, in the file and through the admin API."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import InitErrorDetails, PydanticCustomError, ValidationError

from governor.errors import InvalidBudgetError
from governor.window import Calendar, Fixed, Lifetime, Period, Sliding, Window, buckets_near
from memory_store.budget_rows import WINDOW_SECONDS_MAX
from memory_store.rows import calendar

_Seconds = Annotated[
    int,
    Field(
        strict=True,
        ge=1,
        le=WINDOW_SECONDS_MAX,
        description="at most ten years; what is longer is a lifetime",
    ),
]


class _Words(BaseModel):
    """A window; an unknown member is an error, because a typo is not an opinion."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Every(_Words):
    """Back-to-back windows of one length, aligned to the Unix epoch."""

    every_s: _Seconds


class Last(_Words):
    """The last so many seconds, which move on in `buckets` steps.

    Without a number it is the one nearest to 60 that divides the time.
    """

    last_s: _Seconds
    buckets: Annotated[
        Annotated[int, Field(strict=True, ge=1, le=1000)] | None,
        Field(description="null: the number nearest to 60 that divides the milliseconds"),
    ] = None


class ByCalendar(_Words):
    """Days, weeks or months as the clocks of one time zone show them."""

    calendar: Period
    time_zone: Annotated[str, Field(min_length=1, max_length=100)] = "UTC"


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
            words = ByCalendar.model_validate(value)
            _check_zone(words)
            return words
        case dict():
            return Every.model_validate(value)
        case _:
            raise PydanticCustomError(
                "window",
                'use "lifetime", or one of every_s (back-to-back windows of so many seconds, from '
                "1 to {seconds_max}), last_s (a window that slides) and calendar (day, week or "
                "month, with a time_zone), each as a table",
                {"seconds_max": WINDOW_SECONDS_MAX},
            )


def _check_zone(words: ByCalendar) -> None:
    """Refuse a zone that nobody keeps, naming the field."""
    try:
        calendar(words.calendar, words.time_zone)
    except InvalidBudgetError as error:
        raise ValidationError.from_exception_data(
            "ByCalendar",
            [
                InitErrorDetails(
                    type=PydanticCustomError(
                        "time_zone", "should be a zone of the IANA database, as Europe/Berlin is"
                    ),
                    loc=("time_zone",),
                    input=words.time_zone,
                )
            ],
        ) from error


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
            length_ms = shape.last_s * 1000
            buckets = buckets_near(length_ms) if shape.buckets is None else shape.buckets
            return Sliding(length_ms=length_ms, buckets=buckets)
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
