"""What a caller asks of the router in the headers of its request."""

from collections.abc import Mapping

from governor.effort import AnswerMode
from governor.learning.strategy import Strategy
from runtime.model_gateway.errors import InvalidRequestError
from runtime.model_gateway.ports import Wishes

MODE_HEADER = "flyball-mode"
EFFORT_HEADER = "flyball-effort"
TARGET_HEADER = "flyball-target"
EXPLORE_HEADER = "flyball-explore"
STRATEGY_HEADER = "flyball-strategy"
CACHE_CONTROL_HEADER = "cache-control"
EFFORT_MIN, EFFORT_MAX = 0.1, 4.0
_HEADERS = (
    MODE_HEADER,
    EFFORT_HEADER,
    TARGET_HEADER,
    EXPLORE_HEADER,
    STRATEGY_HEADER,
    CACHE_CONTROL_HEADER,
)
_NONE = Wishes()


def wishes_in(headers: Mapping[str, str]) -> Wishes:
    """Return what the headers ask for; names are in lower case.

    Raises:
        InvalidRequestError: one of them says what cannot be understood.
    """
    if not any(name in headers for name in _HEADERS):
        return _NONE
    return Wishes(
        mode=_mode(headers.get(MODE_HEADER)),
        effort=_number(headers, EFFORT_HEADER, least=EFFORT_MIN, most=EFFORT_MAX),
        target_quality=_number(headers, TARGET_HEADER, least=0.0, most=1.0),
        may_explore=_may_explore(headers.get(EXPLORE_HEADER)),
        strategy=_strategy(headers.get(STRATEGY_HEADER)),
        cache_control=headers.get(CACHE_CONTROL_HEADER),
    )


def _mode(value: str | None) -> AnswerMode | None:
    if value is None:
        return None
    try:
        return AnswerMode(value)
    except ValueError:
        words = ", ".join(AnswerMode)
        raise InvalidRequestError(
            f"{MODE_HEADER}: use one of {words}, not {value!r:.80}", param=MODE_HEADER
        ) from None


def _number(headers: Mapping[str, str], name: str, *, least: float, most: float) -> float | None:
    value = headers.get(name)
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    # A number that is none is never inside.
    if not least <= number <= most:
        raise InvalidRequestError(
            f"{name}: use a number from {least:g} to {most:g}, not {value!r:.80}", param=name
        )
    return number


def _may_explore(value: str | None) -> bool:
    if value not in (None, "on", "off"):
        raise InvalidRequestError(
            f"{EXPLORE_HEADER}: use on or off, not {value!r:.80}", param=EXPLORE_HEADER
        )
    return value != "off"


def _strategy(value: str | None) -> Strategy | None:
    if value is None:
        return None
    try:
        return Strategy(value)
    except ValueError:
        words = ", ".join(Strategy)
        raise InvalidRequestError(
            f"{STRATEGY_HEADER}: use one of {words}, not {value!r:.80}", param=STRATEGY_HEADER
        ) from None
