"""Windows as administrators write them, in the file and through the admin API."""

from collections.abc import Mapping
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


# Which kind of window each key is of; the first of a line makes the kind.
_KINDS: Mapping[str, tuple[type[Every | Last | ByCalendar], frozenset[str]]] = {
    "every_s": (Every, frozenset({"every_s"})),
    "last_s": (Last, frozenset({"last_s", "buckets"})),
    "calendar": (ByCalendar, frozenset({"calendar", "time_zone"})),
}


def _checked_window(value: object) -> object:
    """Return `value` if it is a window; a union would name branches instead of the field."""
    match value:
        case "lifetime" | Every() | Last() | ByCalendar():
            return value
        case {**words} if words:
            return _of_words(words)
        case _:
            raise PydanticCustomError(
                "window",
                'use "lifetime", or one of every_s (back-to-back windows of so many seconds, from '
                "1 to {seconds_max}), last_s (a window that slides) and calendar (day, week or "
                "month, with a time_zone), each as a table",
                {"seconds_max": WINDOW_SECONDS_MAX},
            )


def _of_words(words: dict[object, object]) -> AnyWindow:
    kinds = [kind for kind in _KINDS if kind in words]
    if len(kinds) > 1:
        raise PydanticCustomError("window", f"use only one of {', '.join(_KINDS)}")
    strange = [
        (key, kind)
        for kind, (_, keys) in _KINDS.items()
        for key in sorted(keys - {kind})
        if key in words and kind not in kinds
    ]
    if strange:
        raise _refusal([(key, f"goes only with {kind}", words[key]) for key, kind in strange])
    shape, _ = _KINDS[kinds[0] if kinds else "every_s"]
    window = shape.model_validate(words)
    if isinstance(window, ByCalendar):
        _check_zone(window)
    return window


def _check_zone(words: ByCalendar) -> None:
    """Refuse a zone that nobody keeps, naming the field."""
    try:
        calendar(words.calendar, words.time_zone)
    except InvalidBudgetError as error:
        told = "should be a zone of the IANA database, as Europe/Berlin is"
        raise _refusal([("time_zone", told, words.time_zone)]) from error


def _refusal(faults: list[tuple[str, str, object]]) -> ValidationError:
    """Return the error that names each field, what is wrong with it and what was given."""
    return ValidationError.from_exception_data(
        "window",
        [
            InitErrorDetails(type=PydanticCustomError("window", told), loc=(key,), input=given)
            for key, told, given in faults
        ],
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
