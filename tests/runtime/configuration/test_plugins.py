"""What the file says of plug-ins, and what is refused of it."""

import pytest

from governor.ids import UpstreamName
from runtime.configuration.load import parse_config
from runtime.configuration.upstreams import upstreams_of
from runtime.errors import ConfigError
from runtime.plugins.loading import load_plugins
from tool_gateway.upstreams.spec import PluggedSpec

pytestmark = pytest.mark.requirement("plugins.contained")
KIND = '[[upstream]]\nname = "a"\nkind = "folder"\n'
ENABLED = '[plugins]\nenabled = ["folder"]\n'


def test_nothing_is_loaded_unless_it_is_named() -> None:
    table = parse_config("", source="f").plugins

    assert (table.enabled, table.guard_failure) == ((), "deny")
    assert load_plugins(table.enabled, table.settings) == ()


def test_an_upstream_of_a_kind_is_opened_only_when_it_is_connected_to() -> None:
    text = ENABLED + KIND + "settings = { path = 7 }\nstart_ms_max = 5\n"

    (spec,) = upstreams_of(parse_config(text, source="f"))
    (same,) = upstreams_of(parse_config(text, source="f"))

    assert isinstance(spec, PluggedSpec)
    assert (spec.name, spec.kind) == (UpstreamName("a"), "folder")
    assert (dict(spec.settings), spec.start_ms_max) == ({"path": 7}, 5)
    assert spec == same  # so that a reload keeps its connection


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (KIND, "name it in plugins.enabled"),
        (ENABLED + KIND + 'url = "http://h/mcp"\n', "give exactly one of"),
        (ENABLED + KIND + 'env = { A = "1" }\n', "use `settings`"),
        ('[[upstream]]\nname = "a"\ncommand = ["a"]\nsettings = { a = 1 }\n', "for a `kind`"),
        ('[plugins]\nenabled = ["a", "a"]\n', "name each plug-in once"),
        ("[plugins.settings.a]\nb = 1\n", "plugins.enabled does not name it"),
        ('[plugins]\nguard_failure = "shrug"\n', "guard_failure"),
        ("[plugins]\ntimeout_ms = 0\n", "timeout_ms"),
    ],
)
def test_a_slip_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_config(text, source="f")


def test_a_name_that_stands_for_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="no installed package offers 'nobodys'"):
        load_plugins(("nobodys",), {})
