"""Spans as they may leave: libraries write exceptions into theirs, which can quote anybody."""

from collections.abc import Mapping, Sequence

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.trace import Status
from opentelemetry.util.types import Attributes, AttributeValue

from runtime.withheld import fit_to_tell

_NAME_CHARS_MAX = 200
_TEXT_CHARS_MAX = 512
# An exception's words can be those of a request; its kind says enough.
_WITHHELD = frozenset({"exception.message", "exception.stacktrace"})


def scrubbed(span: ReadableSpan) -> ReadableSpan:
    """Return a span without secrets, known or likely, and without words of exceptions."""
    told = span.status.description
    return ReadableSpan(
        name=fit_to_tell(span.name, chars_max=_NAME_CHARS_MAX),
        context=span.get_span_context(),
        parent=span.parent,
        resource=span.resource,
        attributes=_clean(span.attributes),
        events=[Event(one.name, _clean(one.attributes), one.timestamp) for one in span.events],
        links=span.links,
        kind=span.kind,
        status=Status(
            span.status.status_code,
            None if told is None else fit_to_tell(told, chars_max=_TEXT_CHARS_MAX),
        ),
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )


def _clean(attributes: Attributes | None) -> Mapping[str, AttributeValue]:
    return {
        key: _clean_value(value)
        for key, value in (attributes or {}).items()
        if key not in _WITHHELD
    }


def _clean_value(value: AttributeValue) -> AttributeValue:
    if isinstance(value, str):
        return fit_to_tell(value, chars_max=_TEXT_CHARS_MAX)
    if isinstance(value, Sequence):
        return tuple([_clean_value(one) if isinstance(one, str) else one for one in value])
    return value
