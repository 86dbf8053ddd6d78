"""Local commands are off until a rule that names one of them switches it on."""

import sys

import pytest

from runtime.configuration.model import Config
from runtime.configuration.translate import python_of
from tests.runtime.configuration.test_translate import read, rule_for


@pytest.mark.parametrize("tool", ["shell_run", "python_run"])
def test_local_commands_are_off_by_default(tool: str) -> None:
    rule = rule_for(Config(), tool)

    assert (rule.name, rule.allow) == ("local-commands-off", False)


def test_a_generous_default_does_not_switch_local_commands_on() -> None:
    config = read("[default]\nallow = true\n")

    assert not rule_for(config, "shell_run").allow
    assert rule_for(config, "time__now").allow


def test_a_rule_switches_local_commands_on() -> None:
    config = read('[[rule]]\nname = "shell"\ntool = "shell_run"\nagent = "ada"\n')

    assert rule_for(config, "shell_run").allow
    assert not rule_for(config, "shell_run", agent="bob").allow


@pytest.mark.parametrize("pattern", ["*", "shell_*", "*run", "shell_ru[n]", "python_*"])
def test_a_pattern_never_switches_local_commands_on(pattern: str) -> None:
    config = read(f'[[rule]]\nname = "all"\ntool = "{pattern}"\n')

    assert not rule_for(config, "shell_run").allow
    assert not rule_for(config, "python_run").allow


def test_each_local_tool_is_switched_on_by_its_own_name_alone() -> None:
    config = read('[[rule]]\nname = "py"\ntool = "python_run"\n')

    assert rule_for(config, "python_run").name == "py"
    assert not rule_for(config, "shell_run").allow


def test_python_programs_run_with_the_system_s_interpreter_or_the_one_that_is_named() -> None:
    named = read('[local]\npython = "/opt/python3"\n')

    assert python_of(named) == "/opt/python3"
    assert python_of(Config()) != sys.executable


def test_a_rule_that_names_local_commands_goes_before_a_pattern_that_covers_them() -> None:
    text = '[[rule]]\nname = "all"\ncost_microusd = 1\n[[rule]]\nname = "sh"\ntool = "shell_run"\n'

    config = read(text)

    assert rule_for(config, "shell_run").name == "sh"
    assert rule_for(config, "time__now").name == "all"


def test_a_pattern_that_forbids_holds_for_local_commands_too_in_its_place() -> None:
    forbid = '[[rule]]\nname = "no-bob"\nagent = "bob"\nallow = false\n'
    shell = '[[rule]]\nname = "sh"\ntool = "shell_run"\n'

    before, after = read(forbid + shell), read(shell + forbid)

    assert rule_for(before, "shell_run", agent="bob").name == "no-bob"
    assert rule_for(before, "shell_run", agent="ada").allow
    assert rule_for(after, "shell_run", agent="bob").allow
    assert not rule_for(after, "time__now", agent="bob").allow


def test_a_pattern_that_forbids_does_not_overtake_one_that_allows_other_tools() -> None:
    text = '[[rule]]\nname = "git"\ntool = "git__*"\n[[rule]]\nname = "rest"\nallow = false\n'

    config = read(text)

    assert rule_for(config, "git__log").allow
    assert not rule_for(config, "shell_run").allow
