"""What is logged: one line each, for people or for programs, and no secret in any."""

import io
import json
import logging

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from pydantic import SecretStr

from runtime.configuration.named_secrets import secret_named
from runtime.logs import LINE_CHARS_MAX, JsonLines, LogHandler, TextLines, remark, start_log
from runtime.settings import Settings
from runtime.withheld import withhold

TOKEN = "fbt_canarycanarycanary0123456789"
HEAD = "%(levelname)s %(name)s: %(message)s"


class Desk:
    """A logger whose lines are kept."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self.out = io.StringIO()
        handler = LogHandler(self.out)
        handler.setFormatter(formatter)
        # Of nobody: whoever else listens would be given the same records.
        self.log = logging.Logger("test.desk")  # noqa: LOG001
        self.log.addHandler(handler)

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()


@pytest.fixture(params=[TextLines(HEAD), JsonLines()], ids=["text", "json"])
def desk(request: pytest.FixtureRequest) -> Desk:
    return Desk(request.param)


@pytest.mark.requirement("logs.no-secrets")
def test_no_secret_that_this_process_was_given_is_logged(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_SECRET", "Bearer plain-words-that-nothing-detects")
    secret_named("CANARY_SECRET", "upstream x.headers_from.authorization")

    desk.log.warning("the upstream said: %s is not allowed", "plain-words-that-nothing-detects")

    assert "plain-words" not in desk.out.getvalue()
    assert "[redacted] is not allowed" in desk.out.getvalue()


@pytest.mark.requirement("logs.no-secrets")
@pytest.mark.parametrize(
    "secret",
    [TOKEN, "sk-canarycanarycanary0123456789", "postgresql://me:hidden-word@db/x"],
    ids=["ours", "provider", "url"],
)
def test_what_looks_like_a_secret_is_not_logged_in_words_arguments_or_tracebacks(
    desk: Desk, secret: str
) -> None:
    def fail() -> None:
        raise RuntimeError(f"cannot use {secret}")

    try:
        fail()
    except RuntimeError:
        desk.log.exception("failed with %s", secret)
    desk.log.error("in the words themselves: " + secret)  # noqa: G003 - as somebody may write it

    written = desk.out.getvalue()
    assert secret not in written
    assert "hidden-word" not in written
    assert "RuntimeError" in written


@pytest.mark.requirement("logs.structured")
def test_a_line_for_programs_says_when_where_what_and_in_which_trace() -> None:
    desk, tracer = Desk(JsonLines()), TracerProvider(shutdown_on_exit=False).get_tracer("test")

    desk.log.warning("outside")
    with tracer.start_as_current_span("call") as span:
        desk.log.warning('in "it"\nwith a second line')

    outside, inside = map(json.loads, desk.lines)
    assert outside["at"].endswith("Z")
    assert "trace_id" not in outside
    assert inside["message"] == 'in "it"\nwith a second line'
    assert (inside["level"], inside["logger"]) == ("WARNING", "test.desk")
    assert inside["trace_id"] == trace.format_trace_id(span.get_span_context().trace_id)
    assert inside["span_id"] == trace.format_span_id(span.get_span_context().span_id)


@pytest.mark.requirement("logs.structured")
def test_nobody_who_is_quoted_can_write_a_line_of_its_own() -> None:
    desk = Desk(TextLines(HEAD))

    desk.log.warning("upstream: %s", "gone\nCRITICAL root: \x1b[31mforged\r")

    assert desk.lines == ["WARNING test.desk: upstream: gone\\nCRITICAL root: \\x1b[31mforged\\r"]


@pytest.mark.requirement("logs.structured")
def test_nobody_who_is_quoted_in_a_traceback_can_write_a_line_of_its_own() -> None:
    desk = Desk(TextLines(HEAD))

    def fail() -> None:
        raise ValueError("gone\nCRITICAL root: \x1b[31mforged")

    try:
        fail()
    except ValueError:
        desk.log.exception("it failed")

    first, *others = desk.lines
    assert first == "ERROR test.desk: it failed"
    assert all(line.startswith("    ") for line in others)
    assert others[-1] == "    CRITICAL root: \\x1b[31mforged"


@pytest.mark.requirement("logs.structured")
def test_no_line_moves_a_cursor_ends_elsewhere_or_turns_around(desk: Desk) -> None:
    said = "\x9b2J \x85 \u2028 \u2029 \u202e \u2066 \x7f"

    desk.log.warning(said)

    assert not set(said.split()) & set(desk.out.getvalue())
    assert len(desk.lines) == 1
    if desk.lines[0].startswith("{"):
        assert json.loads(desk.lines[0])["message"] == said


@pytest.mark.requirement("logs.no-secrets")
def test_a_record_that_cannot_be_written_shows_no_secret(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.log.error("args %d", TOKEN)

    assert TOKEN not in desk.out.getvalue() + capsys.readouterr().err
    (line,) = desk.lines
    assert "a record of test.desk, line" in line
    assert "test_logs.py, could not be written: TypeError" in line


@pytest.mark.requirement("logs.no-secrets")
def test_a_secret_at_the_end_of_a_long_line_and_one_that_begins_another_are_hidden(
    desk: Desk,
) -> None:
    withhold("opaque-word-of-the-house")
    withhold("opaque-word-of-the-house-and-garden")

    desk.log.warning("%s%s", "x" * (LINE_CHARS_MAX - 30), "opaque-word-of-the-house-and-garden")

    assert "opaque" not in desk.out.getvalue()
    assert "garden" not in desk.out.getvalue()


def test_a_line_has_an_end(desk: Desk) -> None:
    desk.log.warning("x" * 1_000_000)

    assert len(desk.out.getvalue()) < LINE_CHARS_MAX + 200


def test_a_short_secret_does_not_hide_words_of_others(desk: Desk) -> None:
    withhold("key")

    desk.log.warning("the key is there")

    assert "the key is there" in desk.out.getvalue()


@pytest.mark.requirement("logs.structured")
@pytest.mark.parametrize("is_json", [False, True])
def test_what_is_said_at_the_start_is_a_record_where_the_log_is_for_programs(
    *, is_json: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = LogHandler(io.StringIO())
    handler.setFormatter(JsonLines() if is_json else TextLines(HEAD))
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])

    remark("warning: budget b: it guards nothing yet")

    lines = [json.loads(line)["message"] for line in handler.stream.getvalue().splitlines()]
    said = capsys.readouterr().err
    words = "warning: budget b: it guards nothing yet"
    assert (lines, said) == (([words], "") if is_json else ([], f"flyball: {words}\n"))


@pytest.mark.requirement("logs.no-secrets")
def test_the_password_of_the_store_is_withheld_once_the_log_begins(desk: Desk) -> None:
    url = "postgresql://me:of%20the%20house@db.example.org/flyball"

    start_log(Settings(store_url=SecretStr(url), log_format="json", log_level="CRITICAL"))
    desk.log.warning("the server said: password of the house is wrong for %s", url)

    written = desk.out.getvalue()
    assert "of the house" not in written
    assert "of%20the%20house" not in written
