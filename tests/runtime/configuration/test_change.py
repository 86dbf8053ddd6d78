"""What a changed file changes in a sidecar that runs."""

import pytest

from runtime.configuration.change import change_to
from runtime.configuration.load import parse_config
from runtime.configuration.model import Config
from runtime.errors import ConfigError
from runtime.reload import Reloaded

UPSTREAM = '[[upstream]]\nname = "a"\nurl = "https://mcp.example.org/mcp"\n'


def read(text: str) -> Config:
    return parse_config(text, source="flyball.toml")


def test_upstreams_and_rules_are_taken_over_at_once() -> None:
    wanted = read(f'{UPSTREAM}\n[default]\ncost_microusd = 3\n[[rule]]\nname = "r"\nallow = false')

    change = change_to(wanted, running=read(""))

    assert set(change.applied) == {"upstream", "default", "rule"}
    assert change.effective == wanted
    assert change.needs_restart == ()


@pytest.mark.requirement("reload.all-or-nothing")
def test_what_needs_a_restart_is_named_and_stays_as_it_is() -> None:
    wanted = read('[records]\nretention_days = 3\n[listen]\nagents = "127.0.0.1:1"\n[flow]\n'
                  'enabled = true\nlaunchers = ["eve"]')  # fmt: skip

    change = change_to(wanted, running=read(""))

    assert set(change.needs_restart) == {"records", "listen", "flow.launchers"}
    assert change.applied == ("flow",)
    assert change.effective.records == Config().records
    assert change.effective.flow.enabled
    assert change.effective.flow.launchers == ()


@pytest.mark.requirement("memory.reloaded")
def test_what_the_memory_goes_by_is_taken_over_and_what_it_is_made_of_waits() -> None:
    wanted = read('[memory]\nrecord = "all"\nenabled = false\n[memory.tiers]\nenabled = false\n'
                  'worth_microusd = 7\n[[memory.namespace]]\nname = "team/a"')  # fmt: skip

    change = change_to(wanted, running=read(""))
    nothing = change_to(read("[memory]\nenabled = false"), running=read(""))

    assert change.applied == ("memory",)
    assert set(change.needs_restart) == {"memory.enabled", "memory.tiers.enabled"}
    memory = change.effective.memory
    assert (memory.enabled, memory.tiers.enabled, memory.tiers.worth_microusd) == (True, True, 7)
    assert [one.name for one in memory.namespace] == ["team/a"]
    assert (nothing.applied, nothing.needs_restart) == ((), ("memory.enabled",))


def test_budgets_are_made_once() -> None:
    text = '[[budget]]\nid = "b"\nscope = "tenant"\nlimits = { tool_calls = 1 }'

    change = change_to(read(text), running=read(""))

    assert (change.made_once, change.needs_restart, change.applied) == (("budget",), (), ())
    assert change.effective == Config()


def test_nothing_changes_nothing() -> None:
    change = change_to(read(UPSTREAM), running=read(UPSTREAM))

    assert (change.applied, change.needs_restart, change.made_once) == ((), (), ())


@pytest.mark.requirement("reload.all-or-nothing")
def test_built_in_tools_do_not_come_and_go_with_a_prefix() -> None:
    sole = f'{UPSTREAM}prefix = "none"\n'

    with pytest.raises(ConfigError, match="restart"):
        change_to(read(sole), running=read(UPSTREAM))


def test_a_reload_says_what_becomes_of_changed_budgets() -> None:
    told = Reloaded(
        version="1",
        version_before="0",
        applied=(),
        needs_restart=(),
        made_once=("budget",),
        upstreams={},
    ).told

    assert "of budget nothing was made or changed" in told
    assert "new there is made at the next start" in told
