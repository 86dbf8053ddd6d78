from collections.abc import Iterator

import pytest
from anyio.from_thread import start_blocking_portal
from scenarios.clients import House, a_house

CONFIG = """
[[provider]]
name = "scripted"
base_url = "{url}"
api_key_from = "SCRIPTED_KEY"

[[provider]]
name = "scripted-claude"
kind = "anthropic"
base_url = "{url}"
api_key_from = "SCRIPTED_KEY"

[[tier]]
name = "low"
provider = "scripted"
model = "gpt-4.1"
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"

[[tier]]
name = "claude"
provider = "scripted-claude"
model = "claude-sonnet-4-5"
input_usd_per_mtok = "1"
output_usd_per_mtok = "2"

[[budget]]
id = "calls"
scope = "session"
limits = {{ tool_calls = 30 }}
"""


@pytest.fixture(scope="package")
def shared_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A sidecar before a scripted model, for tests that name sessions of their own."""
    folder = tmp_path_factory.mktemp("house")
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(a_house(folder, CONFIG)) as house,
    ):
        yield house


@pytest.fixture
def house(shared_house: House) -> House:
    shared_house.upstream.script.clear()
    shared_house.upstream.received.clear()
    return shared_house
