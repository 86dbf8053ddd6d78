"""The keys of a rule that withhold something from local commands."""

import pytest

from governor.confines import FREE, Confines, Devices, destination_of
from runtime.configuration.load import parse_config
from runtime.configuration.translate import policy_of
from runtime.errors import ConfigError

RULE = '[[rule]]\nname = "shell"\ntool = "{tool}"\n{terms}\n'


def confines(terms: str, *, tool: str = "shell_run") -> Confines:
    text = RULE.format(tool=tool, terms=terms)
    return policy_of(parse_config(text, source="f.toml")).rules[0].limits.confines


def test_a_rule_withholds_nothing_that_it_does_not_name() -> None:
    assert confines("") == FREE


def test_what_a_rule_withholds_reaches_the_policy() -> None:
    found = confines(
        'network = ["example.org:443", "10.0.0.0/8:*"]\n'
        'files = { read_only = ["/srv"], hidden = ["/a"], no_exec_from = ["/tmp"] }\n'
        'devices = "standard"'
    )

    assert found == Confines(
        network=(destination_of("example.org:443"), destination_of("10.0.0.0/8:*")),
        read_only=("/srv",),
        hidden=("/a",),
        no_exec_from=("/tmp",),
        devices=Devices.STANDARD,
    )


def test_none_is_no_network_at_all() -> None:
    assert confines('network = "none"').network == ()


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ('network = "all"', 'use "none", or a list'),
        ("network = []", 'use "none", or a list'),
        ("network = true", 'use "none", or a list'),
        ("network = [443]", "a list of texts"),
        ('network = ["example.org"]', "no host:port"),
        ('network = ["example.org:443", "10.0.0.1/8:1"]', "no bit may be set"),
        ('files = { hidden = ["srv"] }', "give an absolute path"),
        ('files = { secret = ["/srv"] }', "secret"),
        ('devices = "some"', "standard"),
    ],
)
def test_what_cannot_be_withheld_is_refused_with_its_place(terms: str, told: str) -> None:
    with pytest.raises(ConfigError, match=r"rule.*") as refused:
        confines(terms)

    assert told in str(refused.value)


@pytest.mark.parametrize("tool", ["*", "git__*", "memory_read"])
def test_a_rule_for_other_tools_cannot_withhold_what_nobody_would(tool: str) -> None:
    with pytest.raises(ConfigError, match="are for local commands"):
        confines('network = "none"', tool=tool)


def test_the_terms_of_every_other_tool_cannot_either() -> None:
    with pytest.raises(ConfigError, match="default: network, files, devices"):
        policy_of(parse_config('[default]\ndevices = "standard"\n', source="f.toml"))
