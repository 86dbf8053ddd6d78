import pytest

from runtime.configuration.load import parse_config
from runtime.configuration.model import Config
from runtime.configuration.translate import shows_builtins, upstreams_of
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
