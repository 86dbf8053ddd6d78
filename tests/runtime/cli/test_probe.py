"""`flyball probe`: what it says of probes and sessions that are not there."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest
from anyio import to_thread

from runtime.configuration.listen import Listen
from runtime.configuration.model import Config
from runtime.serving import serving
from tests.runtime.cli.conftest import Ended, Flyball

pytestmark = pytest.mark.anyio

COUNTS = "int kprobe__nothing(void *ctx) { flyball_count(1); return 0; }\n"


@pytest.fixture
async def sidecar(folder: Path) -> AsyncIterator[None]:
    config = Config(listen=Listen(agents="127.0.0.1:0", admin="127.0.0.1:0"))
    async with serving(config, state_dir=folder / ".flyball") as (_, listeners):
        admin = listeners.admin_url.removeprefix("http://")
        (folder / "flyball.toml").write_text(f'[listen]\nadmin = "{admin}"\n', encoding="utf-8")
        yield


@pytest.mark.usefixtures("sidecar")
async def test_a_probe_for_a_session_that_is_not_there_is_refused(
    flyball: Flyball, folder: Path
) -> None:
    (folder / "x.c").write_text(COUNTS, encoding="utf-8")

    def added() -> Ended:
        return flyball("probe", "add", "x.c", "--session", "nope")

    with anyio.fail_after(60):
        ended = await to_thread.run_sync(added)

    assert ended.status != 0
    assert "there is no session nope" in ended.err


def test_probes_are_listed_in_json_wherever_it_is_asked_for(flyball: Flyball) -> None:
    shown = [flyball("probe", "list", "--json"), flyball("probe", "--json", "list")]

    assert [json.loads(ended.out) for ended in shown] == [{"probes": []}] * 2


def test_a_probe_that_is_not_there_is_complained_of_as_everything_is(flyball: Flyball) -> None:
    ended = flyball("probe", "remove", "nope")

    assert ended.status != 0
    assert ended.err == "flyball: nope is no probe here; there are: none\n"
