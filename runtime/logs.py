"""The log: lines for people or for programs, each without secrets, and with the trace it is of."""

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from urllib.parse import unquote, urlsplit

from opentelemetry import trace

from runtime.settings import Settings
from runtime.wire_logs import quieten_wires
from runtime.withheld import withhold, without_secrets
from tool_gateway.redaction import redact_text

# Whoever writes more than this at once quotes somebody.
LINE_CHARS_MAX = 16_000
_CONTROLS: Mapping[int, str] = {
    code: f"\\x{code:02x}" for code in (*range(32), 127) if chr(code) != "\t"
} | {ord("\n"): "\\n", ord("\r"): "\\r"}


def start_log(settings: Settings, *, is_for_people: bool = False) -> None:
    """Write the log to standard error from now on; shorter where it stands among words for people.

    Standard output belongs to answers and protocols.
    """
    if settings.store_url is not None:
        _withhold_password(settings.store_url.get_secret_value())
    handler = logging.StreamHandler()
    if settings.log_format == "json":
        handler.setFormatter(JsonLines())
    else:
        head = "" if is_for_people else "%(asctime)s "
        handler.setFormatter(TextLines(f"{head}%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.log_level, handlers=[handler])
    quieten_wires()


def _withhold_password(url: str) -> None:
    withhold(url)
    try:
        password = urlsplit(url).password
    except ValueError:
        return
    if password is not None:
        withhold(password)
        withhold(unquote(password))


def _clean(text: str) -> str:
    """Return a text without secrets, cut before anybody looks through megabytes."""
    if len(text) > LINE_CHARS_MAX:
        text = f"{text[:LINE_CHARS_MAX]}… ({len(text)} characters)"
    return redact_text(without_secrets(text))


def _of_one_line(text: str) -> str:
    """Return a text that cannot be taken for lines of its own."""
    return text.translate(_CONTROLS)


class TextLines(logging.Formatter):
    """Lines for people; only a traceback takes several."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """Return the line without its traceback."""
        record.message = _of_one_line(record.message)
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return what is written of a record."""
        return _clean(super().format(record))


class JsonLines(logging.Formatter):
    """One JSON object for each record, on a line of its own."""

    def format(self, record: logging.LogRecord) -> str:
        """Return what is written of a record."""
        moment = datetime.fromtimestamp(record.created, tz=UTC)
        line: dict[str, object] = {
            "at": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": _clean(record.getMessage()),
        }
        if record.exc_info:
            line["exception"] = _clean(self.formatException(record.exc_info))
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            line["trace_id"] = f"{context.trace_id:032x}"
            line["span_id"] = f"{context.span_id:016x}"
        return json.dumps(line, ensure_ascii=False)
