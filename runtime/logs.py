"""The log: lines for people or for programs, each without secrets, and with the trace it is of."""

import json
import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import TextIO
from urllib.parse import unquote, urlsplit

from opentelemetry import trace

from runtime.settings import Settings
from runtime.wire_logs import quieten_wires
from runtime.withheld import fit_to_tell, withhold

logger = logging.getLogger(__name__)

# Whoever writes more than this at once quotes somebody.
LINE_CHARS_MAX = 16_000
# What moves a cursor, ends a line somewhere, or turns the direction of what follows.
_UNSEEN = (*range(32), *range(0x7F, 0xA0), *range(0x2028, 0x202F), *range(0x2066, 0x206A))
_CONTROLS: Mapping[int, str] = {
    code: f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004 - two digits
    for code in _UNSEEN
    if chr(code) != "\t"
} | {ord("\n"): "\\n", ord("\r"): "\\r"}
_CONTROLS_IN_JSON: Mapping[int, str] = {code: f"\\u{code:04x}" for code in _UNSEEN}
_INDENT = "    "
_Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def start_log(settings: Settings, *, is_for_people: bool = False) -> None:
    """Write the log to standard error from now on; shorter where it stands among words for people.

    Standard output belongs to answers and protocols.
    """
    if settings.store_url is not None:
        _withhold_password(settings.store_url.get_secret_value())
    handler = LogHandler()
    if settings.log_format == "json":
        handler.setFormatter(JsonLines())
    else:
        head = "" if is_for_people else "%(asctime)s "
        handler.setFormatter(TextLines(f"{head}%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.log_level, handlers=[handler])
    quieten_wires()


def remark(text: str) -> None:
    """Say on standard error what whoever started this is to read, however little is logged.

    Where the log is for programs, it is a record like all others there.
    """
    if any(isinstance(handler.formatter, JsonLines) for handler in logging.getLogger().handlers):
        logger.warning("%s", text)
        return
    sys.stderr.write(f"flyball: {text}\n")
    sys.stderr.flush()


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
    clean = fit_to_tell(text, chars_max=LINE_CHARS_MAX)
    return clean if len(text) <= LINE_CHARS_MAX else f"{clean}… ({len(text)} characters)"


def _of_one_line(text: str) -> str:
    """Return a text that cannot be taken for lines of its own."""
    return text.translate(_CONTROLS)


def _set_in(text: str) -> str:
    return "\n".join(_INDENT + _of_one_line(line) for line in text.split("\n"))


class LogHandler(logging.StreamHandler[TextIO]):
    """Writes to standard error; of a record that cannot be written it says only which."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the library's name
        """Say so, without the words and arguments that nobody has looked through."""
        said = logging.LogRecord(
            __name__,
            logging.ERROR,
            __file__,
            0,
            "a record of %s, line %d of %s, could not be written: %s",
            (record.name, record.lineno, record.filename, type(sys.exception()).__name__),
            None,
        )
        # Where not even that can be written, nobody reads.
        with suppress(Exception):
            self.stream.write(self.format(said) + self.terminator)
            self.flush()


class TextLines(logging.Formatter):
    """Lines for people; only a traceback takes several, each of them set in."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the library's name
        """Return the line without its traceback."""
        record.message = _of_one_line(record.message)
        return super().formatMessage(record)

    def formatException(self, ei: _Raised) -> str:  # noqa: N802 - the library's name
        """Return a traceback; no line that it quotes can be taken for one of the log."""
        return _set_in(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:  # noqa: N802 - the library's name
        """Return a stack, set in likewise."""
        return _set_in(super().formatStack(stack_info))

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
        return json.dumps(line, ensure_ascii=False).translate(_CONTROLS_IN_JSON)
