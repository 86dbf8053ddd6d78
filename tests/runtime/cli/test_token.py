"""`flyball token` against a real sidecar, and without one."""

import json
import stat
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import httpx
import pytest
from anyio import to_thread

from runtime.cli.token import _row
from runtime.configuration.listen import Listen
from runtime.configuration.model import Config
from runtime.listeners import Listeners, bind
from runtime.serving import serving
from tests.runtime.cli.conftest import Ended, Flyball

pytestmark = pytest.mark.anyio

STATE = "state"


@pytest.fixture
async def sidecar(folder: Path) -> AsyncIterator[Listeners]:
    """A sidecar on free ports; the configuration beside it names the ports that it got."""
    config = Config(listen=Listen(agents="127.0.0.1:0", admin="127.0.0.1:0"))
    async with serving(config, state_dir=folder / STATE) as (_, listeners):
        admin = listeners.admin_url.removeprefix("http://")
        write(folder, f'[listen]\nadmin = "{admin}"\n')
        yield listeners


@pytest.fixture
def token(flyball: Flyball) -> Callable[..., Ended]:
    """Runs `flyball token`, in JSON or in words, beside the sidecar that it talks to."""

    async def run(*words: str, as_json: bool = True) -> Ended:
        more = ("--json",) if as_json else ()
        with anyio.fail_after(60):
            return await to_thread.run_sync(
                lambda: flyball("token", *words, "--state", STATE, *more)
            )

    return run


def write(folder: Path, text: str) -> None:
    (folder / "flyball.toml").write_text(text, encoding="utf-8")


async def is_let_in(sidecar: Listeners, secret: str) -> bool:
    """Tell whether an agent gets past the door with `secret`."""
    async with httpx.AsyncClient(trust_env=False, timeout=60) as client:
        answer = await client.get(
            f"{sidecar.agents_url}/v1/models", headers={"Authorization": f"Bearer {secret}"}
        )
    assert answer.status_code in {200, 401}
    return answer.status_code == 200


async def test_a_token_is_made_listed_rotated_and_revoked(
    sidecar: Listeners, token: Callable[..., Ended]
) -> None:
    made = json.loads((await token("make", "agent")).out)
    assert await is_let_in(sidecar, made["secret"])

    listed = await token("list", "agent")
    assert made["id"] in {item["id"] for item in json.loads(listed.out)["items"]}
    assert made["secret"] not in listed.out

    rotated = json.loads((await token("rotate", "agent", made["id"])).out)
    assert not await is_let_in(sidecar, made["secret"])
    assert await is_let_in(sidecar, rotated["secret"])

    revoked = await token("revoke", "agent", rotated["id"])
    assert revoked.status == 0
    assert not await is_let_in(sidecar, rotated["secret"])


@pytest.mark.usefixtures("sidecar")
async def test_a_secret_is_shown_once_and_later_by_its_last_four(
    token: Callable[..., Ended],
) -> None:
    made = await token("make", "agent", as_json=False)
    secret, remark = made.out.splitlines()
    token_id = remark.split()[1].rstrip(";")

    listed = await token("list", "agent", as_json=False)
    revoked = await token("revoke", "agent", token_id, as_json=False)
    after = await token("list", "agent", as_json=False)

    assert "the secret is not shown again" in remark
    row = [token_id, f"…{secret[-4:]}"]
    assert [*row, "valid"] in [line.split()[:3] for line in listed.out.splitlines()]
    assert "Z  never expires\n" in listed.out
    assert secret not in listed.out
    assert revoked.out == f"{token_id} is revoked.\n"
    assert [*row, "revoked"] in [line.split()[:3] for line in after.out.splitlines()]


async def first_token(
    folder: Path, principal: str, token: Callable[..., Ended]
) -> tuple[Path, str]:
    """Return the file of a principal's first token, and the token's id."""
    [item] = json.loads((await token("list", principal)).out)["items"]
    return folder / STATE / f"{principal}.token", item["id"]


@pytest.mark.parametrize("principal", ["agent", "admin"])
async def test_rotating_the_token_of_a_file_puts_the_new_one_there(
    sidecar: Listeners, folder: Path, token: Callable[..., Ended], principal: str
) -> None:
    file, token_id = await first_token(folder, principal, token)
    before = file.read_text(encoding="utf-8")

    rotated = await token("rotate", principal, token_id, as_json=False)

    after = file.read_text(encoding="utf-8")
    assert rotated.status == 0
    assert f"{file} holds the new secret." in rotated.out
    assert after != before
    assert rotated.out.startswith(after)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    # The administrator's own rotation does not lock the next command out.
    assert (await token("list", principal)).status == 0
    if principal == "agent":
        assert await is_let_in(sidecar, after.strip())


@pytest.mark.usefixtures("sidecar")
async def test_rotating_another_token_leaves_the_file_alone(
    folder: Path, token: Callable[..., Ended]
) -> None:
    file = folder / STATE / "agent.token"
    before = file.read_text(encoding="utf-8")
    made = json.loads((await token("make", "agent")).out)

    rotated = json.loads((await token("rotate", "agent", made["id"])).out)

    assert "token_file" not in rotated
    assert file.read_text(encoding="utf-8") == before


@pytest.mark.usefixtures("sidecar")
async def test_revoking_the_token_of_a_file_says_that_the_file_is_stale(
    folder: Path, token: Callable[..., Ended]
) -> None:
    file, token_id = await first_token(folder, "agent", token)

    revoked = await token("revoke", "agent", token_id, as_json=False)

    assert f"{file} still holds the old secret, which works no more." in revoked.out


def test_a_token_that_has_expired_is_shown_as_expired_with_its_dates() -> None:
    item = {
        "id": "tok_1",
        "last_four": "abcd",
        "created_at_ms": 1_700_000_000_000,
        "expires_at_ms": 1_700_000_060_000,
        "revoked_at_ms": None,
    }

    expired = _row(item, now_ms=1_700_000_060_000)
    valid = _row(item, now_ms=1_700_000_059_999)

    made = "2023-11-14T22:13:20Z"
    assert [expired[2].text, *expired[3:]] == ["expired", made, "expired 2023-11-14T22:14:20Z"]
    assert [valid[2].text, *valid[3:]] == ["valid", made, "expires 2023-11-14T22:14:20Z"]


@pytest.mark.usefixtures("sidecar")
@pytest.mark.parametrize(
    "words",
    [
        ("make", "nobody"),
        ("list", "nobody"),
        ("rotate", "agent", "tok_nosuch"),
        ("revoke", "agent", "tok_nosuch"),
    ],
)
async def test_what_the_sidecar_refuses_is_told_in_its_own_words(
    words: tuple[str, ...], token: Callable[..., Ended]
) -> None:
    ended = await token(*words, as_json=False)

    assert ended.status == 2
    assert ended.out == ""
    assert ended.err.startswith("flyball: ")
    assert words[-1] in ended.err


@pytest.mark.usefixtures("sidecar")
async def test_an_admin_token_that_is_not_accepted_is_told(
    folder: Path, token: Callable[..., Ended]
) -> None:
    await anyio.Path(folder / STATE / "admin.token").write_text("fbt_wrong\n", encoding="utf-8")

    ended = await token("list", "agent")

    assert ended.status == 2
    assert json.loads(ended.out)["ok"] is False
    assert "fbt_wrong" not in ended.out


@pytest.mark.parametrize("action", ["rotate", "revoke"])
async def test_a_token_that_is_not_named_is_asked_for(
    action: str, token: Callable[..., Ended]
) -> None:
    ended = await token(action, "agent", as_json=False)

    assert ended.status == 2
    assert ended.err == "flyball: which token? `flyball token list agent` shows their ids\n"


async def test_without_a_first_start_there_is_no_admin_token_to_use(
    token: Callable[..., Ended],
) -> None:
    ended = await token("list", "agent", as_json=False)

    assert ended.status == 2
    assert "there is no such state directory; name the sidecar's with --state DIR" in ended.err
    assert "start a sidecar here with `flyball up`" in ended.err


async def test_without_a_running_sidecar_the_address_is_named_and_how_to_start_one(
    folder: Path, token: Callable[..., Ended]
) -> None:
    bound = bind("127.0.0.1:0", Listen())
    nobody_there = bound.url
    bound.listening.close()
    write(folder, f'[listen]\nadmin = "{nobody_there.removeprefix("http://")}"\n')
    await anyio.Path(folder / STATE).mkdir()
    await anyio.Path(folder / STATE / "admin.token").write_text("fbt_made-up\n", encoding="utf-8")

    ended = await token("list", "agent")

    assert ended.status == 2
    told = json.loads(ended.out)
    assert told["ok"] is False
    assert told["error"].startswith(f"no sidecar answers at {nobody_there}: start one with ")


async def test_a_configuration_that_is_broken_is_told_before_anybody_is_asked(
    folder: Path, token: Callable[..., Ended]
) -> None:
    write(folder, "[lissten]\n")

    ended = await token("list", "agent", as_json=False)

    assert ended.status == 2
    assert "did you mean 'listen'?" in ended.err


async def test_an_action_that_there_is_not_is_refused(token: Callable[..., Ended]) -> None:
    ended = await token("steal", "agent", as_json=False)

    assert ended.status == 2
    assert "make" in ended.err


async def test_a_second_agent_is_made_with_its_first_token(
    sidecar: Listeners, token: Callable[..., Ended]
) -> None:
    unknown = await token("make", "ratey", as_json=False)

    made = json.loads((await token("make", "ratey", "--new-agent")).out)

    assert unknown.status == 2
    assert "there is no principal ratey; `flyball token make ratey --new-agent`" in unknown.err
    assert await is_let_in(sidecar, made["secret"])


@pytest.mark.usefixtures("sidecar")
async def test_what_is_no_name_is_not_asked_for(token: Callable[..., Ended]) -> None:
    ended = await token("make", "bad/name", as_json=False)

    assert ended.status == 2
    assert "bad/name is no principal's name: use 1 to 64 letters" in ended.err
