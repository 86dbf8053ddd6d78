import re

import pytest

from governor.breaker import BreakerTerms
from governor.retrying import RetryTerms
from runtime.configuration.care import breakers_of
from runtime.configuration.load import parse_config
from runtime.configuration.model import Config
from runtime.configuration.translate import shows_builtins
from runtime.configuration.upstreams import upstreams_of
from runtime.errors import ConfigError
from tool_gateway.egress.reach import NAMED
from tool_gateway.server_ports import ServerLimits
from tool_gateway.upstreams.spec import Care, Health, HttpSpec, Share, StdioSpec, Transport


def read(text: str) -> Config:
    return parse_config(text, source="flyball.toml")


def test_how_a_server_is_spoken_to_and_shared_is_read() -> None:
    config = read("""
[[upstream]]
name = "old"
url = "https://mcp.example.org/sse"
transport = "sse"
share = "session"
""")

    (spec,) = upstreams_of(config)

    assert isinstance(spec, HttpSpec)
    assert (spec.transport, spec.share) == (Transport.SSE, Share.SESSION)


@pytest.mark.requirement("protocol.sole-upstream-is-shown-as-it-is")
@pytest.mark.parametrize(
    ("prefix", "tools", "are_shown"),
    [
        ("server", "auto", "yes"),
        ("none", "auto", "no"),
        ("none", "on", "yes"),
        ("server", "off", "no"),
    ],
)
def test_a_sole_upstream_hides_the_tools_of_the_house(
    prefix: str, tools: str, are_shown: str
) -> None:
    config = read(f"""
[builtin]
tools = "{tools}"

[[upstream]]
name = "a"
url = "https://mcp.example.org/mcp"
prefix = "{prefix}"
""")

    assert shows_builtins(config) is (are_shown == "yes")


def test_how_long_a_server_lives_is_read() -> None:
    config = read("""
[[upstream]]
name = "a"
command = ["a"]
share = "session"
sessions_max = 3
idle_s = 60
health = { every_s = 5, failures_max = 4 }
""")

    (spec,) = upstreams_of(config)

    assert isinstance(spec, StdioSpec)
    assert (spec.sessions_max, spec.idle_ms) == (3, 60_000)
    assert spec.health == Health(every_ms=5_000, timeout_ms=10_000, failures_max=4)


def test_what_is_started_is_asked_whether_it_lives_and_what_runs_elsewhere_is_not() -> None:
    config = read("""
[[upstream]]
name = "started"
command = ["a"]

[[upstream]]
name = "elsewhere"
url = "https://mcp.example.org/mcp"

[[upstream]]
name = "off"
command = ["a"]
health = { every_s = 0 }
""")

    found = [spec.health for spec in upstreams_of(config)]

    assert found == [Health(), None, None]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ('command = ["a"]\nsessions_max = 3', 'sessions_max: this is for share = "session"'),
        ('url = "https://a.test"\nidle_s = 3', "idle_s: this is for `command`"),
        ('command = ["a"]\nidle_s = 0', "greater than or equal to 1"),
        ('command = ["a"]\nhealth = { every = 3 }', "health.every"),
    ],
)
def test_what_cannot_be_about_a_servers_life_is_refused(words: str, said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        read(f'[[upstream]]\nname = "a"\n{words}\n')


UPSTREAM = """
[[upstream]]
name = "a"
url = "https://mcp.example.org/mcp"
"""


def test_a_breaker_stands_before_each_upstream_unless_it_is_switched_off() -> None:
    text = UPSTREAM + UPSTREAM.replace('"a"', '"b"') + 'breaker = "off"\n'

    assert breakers_of(read(text).upstream) == {"a": BreakerTerms()}


def test_the_terms_of_a_breaker_are_read() -> None:
    table = "{ failures_percent = 20, calls_min = 3, window_s = 7, open_s = 2, open_s_max = 9 }"

    terms = breakers_of(read(f"{UPSTREAM}breaker = {table}").upstream)["a"]

    assert terms == BreakerTerms(
        failures_percent=20, calls_min=3, window_ms=7_000, open_ms=2_000, open_ms_max=9_000
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ('"on"', "upstream[0].breaker = 'on': use \"off\", or {"),
        ("{ calls = 3 }", "upstream[0].breaker.calls: there is no such key"),
        ("{ open_s = 200 }", "open_s = 200 is above open_s_max = 120"),
    ],
)
def test_a_breaker_that_makes_no_sense_is_refused(words: str, told: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read(f"{UPSTREAM}breaker = {words}")

    assert told in str(refused.value)


def test_how_often_and_for_how_long_an_upstream_is_tried_is_read() -> None:
    words = "retries = 0\nanswer_ms_max = 900\nidempotent_by_key = true"

    (spec,) = upstreams_of(read(f"{UPSTREAM}{words}"))

    care = Care(retry=RetryTerms(retries=0), answer_ms_max=900, idempotent_by_key=True)
    assert spec.care == care


def test_an_upstream_of_which_nothing_is_said_is_tried_as_by_default() -> None:
    (spec,) = upstreams_of(read(UPSTREAM))

    assert spec.care == Care()


@pytest.mark.requirement("egress.checked-addresses")
def test_where_an_upstreams_name_may_lead_is_read() -> None:
    config = read("""
[[upstream]]
name = "near"
url = "https://near.internal/mcp"
allow_private = true

[[upstream]]
name = "listed"
url = "https://listed.internal/mcp"
allow_networks = ["10.1.0.0/16", "fd12::1"]

[[upstream]]
name = "far"
url = "https://far.example.org/mcp"
""")

    near, listed, far = (spec.reach for spec in upstreams_of(config) if isinstance(spec, HttpSpec))

    assert (near.is_private, near.networks) == (True, ())
    assert [str(network) for network in listed.networks] == ["10.1.0.0/16", "fd12::1/128"]
    assert far == NAMED


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('allow_networks = ["10.1.2.3/8"]', "'10.1.2.3/8' is no network"),
        ('allow_networks = ["intranet"]', "'intranet' is no network"),
    ],
)
def test_what_is_no_network_is_refused(line: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read(f'[[upstream]]\nname = "a"\nurl = "https://a.example.org/mcp"\n{line}\n')


def test_a_server_that_is_started_connects_nowhere() -> None:
    with pytest.raises(ConfigError, match="are for a `url`; remove them"):
        read('[[upstream]]\nname = "a"\ncommand = ["a"]\nallow_private = true\n')


@pytest.mark.requirement("servers.limits")
def test_the_limits_of_a_server_are_those_of_its_table() -> None:
    text = '[[upstream]]\nname = "a"\ncommand = ["true"]\n'
    (bare,) = upstreams_of(parse_config(text, source="flyball.toml"))
    text += 'limits = { memory_mib = 64, cpus = 0.5, isolation = "best_effort" }\n'
    (limited,) = upstreams_of(parse_config(text, source="flyball.toml"))

    assert isinstance(bare, StdioSpec)
    assert isinstance(limited, StdioSpec)
    assert bare.limits is None
    assert limited.limits == ServerLimits(memory_bytes=64 << 20, cpu_millis=500, required=False)


def test_limits_are_refused_for_a_server_that_runs_elsewhere() -> None:
    text = '[[upstream]]\nname = "a"\nurl = "http://a.test"\nlimits = { pids = 1 }\n'

    with pytest.raises(ConfigError, match="what runs elsewhere is not ours"):
        parse_config(text, source="flyball.toml")
