"""What a person sees at a terminal, and a program on a pipe."""

import io
import re
import sys

import pytest

from runtime.cli import approve, memory_texts, showing
from runtime.cli.showing import Cell, Tone, figures, folding, note, table, words

CONTROL = re.compile(r"\x1b\[[0-9;]*m")
HEAD = (*words("name"), folding("text"), *figures("used", "left"))
ROWS = [
    ["alpha", "a sentence of several words that takes quite some room", "12", Cell(text="0")],
    ["beta", "short", "1", Cell(text="900", tone=Tone.GOOD)],
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def sit_down(monkeypatch: pytest.MonkeyPatch, *, columns: int = 80) -> None:
    """Let standard output be a terminal from here on."""
    monkeypatch.setattr(sys, "stdout", Terminal())
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(columns))


@pytest.mark.requirement("commands.tables")
def test_a_pipe_gets_every_cell_in_full_and_no_control_sequence() -> None:
    lines = table(HEAD, ROWS, none="").splitlines()

    assert lines[0].split() == ["name", "text", "used", "left"]
    assert lines[1].endswith("quite some room    12     0")
    assert lines[2].endswith("   1   900")
    assert "\x1b" not in "".join(lines)


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 140])
@pytest.mark.requirement("commands.tables")
def test_no_line_is_wider_than_the_terminal_and_no_word_is_lost(
    monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    sit_down(monkeypatch, columns=columns)

    told = CONTROL.sub("", table(HEAD, ROWS, none=""))

    assert max(map(len, told.splitlines())) <= columns
    for word in ("alpha", "sentence", "several", "quite", "room", "beta", "900"):
        assert word in told


def test_a_figure_that_heads_a_paragraph_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sit_down(monkeypatch, columns=30)
    head = (*figures("callers"), *words("what", "where"))

    told = CONTROL.sub("", table(head, [["1", "a" * 20, "b" * 20]], none=""))

    assert told.splitlines() == ["callers 1", f"  what {'a' * 20}", f"  where {'b' * 20}"]


def test_the_score_of_what_a_search_found_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    sit_down(monkeypatch, columns=60)
    one = {
        "index": "arc_1",
        "learned_at_ms": 0,
        "kind": "fact",
        "lane": "agent",
        "summary": "s " * 30,
    }
    standing = {"standing": "trusted", "expires_at_ms": None}

    found = {"items": [{"score": 4.371, "experience": one | standing}], "left_out": 0}
    told = CONTROL.sub("", memory_texts.found_text(found))

    assert told.splitlines()[0] == "score 4.37"


def test_colour_says_what_a_figure_means_unless_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sit_down(monkeypatch)
    coloured = table(HEAD, ROWS, none="")
    monkeypatch.setenv("NO_COLOR", "1")
    uncoloured = table(HEAD, ROWS, none="")

    assert "\x1b[32m" in coloured
    assert "\x1b[3" not in uncoloured
    assert "900" in uncoloured


def test_a_column_that_says_nothing_is_left_out_at_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sit_down(monkeypatch)
    head = words("name", "outcome")
    shown = table(head, [["a", "-"], ["b", ""]], none="")
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    piped = table(head, [["a", "-"], ["b", ""]], none="")

    assert "outcome" not in shown
    assert "outcome" in piped


@pytest.mark.requirement("commands.strangers")
def test_what_a_stranger_wrote_does_not_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sit_down(monkeypatch)
    evil = "\x1b]0;owned\x07 [bold]red[/bold] \x1b[2J\n\u202eno"

    told = table(words("name"), [[evil]], none="") + showing.fields([("said", evil)]) + note("")

    assert "[bold]red[/bold]" in told
    for control in ("\x07", "\x1b]", "\x1b[2J", "\u202e"):
        assert control not in told


def test_progress_is_no_part_of_what_a_pipe_gets(capsys: pytest.CaptureFixture[str]) -> None:
    with showing.progress("Asking", total=3) as asking, showing.stages("Looking") as tell:
        asking.expect(4)
        asking.advance(4)
        tell("further")

    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


def test_progress_at_a_terminal_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    sit_down(monkeypatch)
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)

    with showing.stages("Looking at [this] host") as tell:
        tell("further")

    last = shown.getvalue()
    assert "further" in last
    assert last.endswith("\x1b[2K")


@pytest.mark.requirement("commands.strangers")
def test_a_call_that_waits_is_shown_in_full_and_cannot_steer_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sit_down(monkeypatch, columns=60)
    waiting = {
        "id": "apr_1",
        "agent": "coder",
        "tool": "shell_run",
        "session": "ses_1",
        "rule": "ask-first",
        "arguments": '{"argv": ["rm", "' + "x" * 100 + '\x1b[2J"]}',
        "expires_at_ms": 1_700_000_000_000,
    }

    told = CONTROL.sub("", approve._lines(waiting, {}))

    assert "apr_1  coder  shell_run" in told
    assert "until" in told
    assert told.count("x") >= 100
    assert "\\x1b[2J" in told.replace("\n", "").replace(" ", "")
    assert max(map(len, told.splitlines())) <= 60
