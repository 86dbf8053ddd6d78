import pytest

from runtime.configuration.load import parse_config
from runtime.configuration.model import Config
from runtime.configuration.translate import shows_builtins, upstreams_of
from runtime.errors import ConfigError
from tool_gateway.egress.reach import NAMED
from tool_gateway.upstreams.spec import HttpSpec, Share, Transport


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
