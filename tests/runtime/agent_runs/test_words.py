"""What is said of an agent before it begins: only what can be kept is understood."""

import argparse
import json

import msgspec
import pytest

from runtime.agent_runs.words import Begin, heard_from_launcher
from runtime.cli import run
from tool_gateway.identity import NAME_LENGTH_MAX


def a_begin(**more: object) -> bytes:
    said = {"type": "begin", "token": "t", "session": "one", "command": ["true"], "cwd": "/"}
    return json.dumps({**said, **more}).encode()


@pytest.mark.parametrize(
    "limits",
    [{"cpus": 1e308}, {"cpus": 0}, {"memory_mib": -1}, {"memory_mib": 2**60}, {"pids": 2**63}],
)
def test_limits_that_no_machine_has_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(msgspec.ValidationError):
        heard_from_launcher(a_begin(limits=limits))

    assert isinstance(heard_from_launcher(a_begin()), Begin)


@pytest.mark.parametrize("name", ["", "a\nb", "x" * (NAME_LENGTH_MAX + 1)])
def test_a_session_that_no_request_could_name_is_refused(name: str) -> None:
    with pytest.raises(msgspec.ValidationError, match="printable name"):
        heard_from_launcher(a_begin(session=name))


@pytest.mark.parametrize(
    "words",
    [
        ("--limits", "cpus=nan"),
        ("--limits", "cpus=inf"),
        ("--limits", "memory_mib=0"),
        ("--limits", "pids=99999999999999999999999"),
        ("--limits", "tool_calls=-1"),
        ("--session", ""),
        ("--session", "a\nb"),
    ],
)
def test_what_is_no_limit_or_name_is_said_before_anybody_is_asked(
    words: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    run.add_arguments(parser)

    # Not a number is no limit in JSON: an agent would run without the one that was asked for.
    with pytest.raises(SystemExit):
        parser.parse_args([*words, "--", "true"])

    assert f"argument {words[0]}" in capsys.readouterr().err
