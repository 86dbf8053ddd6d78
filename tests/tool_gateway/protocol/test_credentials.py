"""What upstreams are sent so that they know who asks: over both ways out, in both eras."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from runtime.clock import SystemClock
from runtime.oauth.assertion import assertion_of
from tests.authority import ASSERTION, BEARER, EXCHANGE, Authority, authority, claims_in
from tests.tool_gateway.protocol.protected import Protected, a_client, protected
from tests.tool_gateway.protocol.stage import NEW, OLD, SESSIONS, STATELESS, Stage, served, text_of
from tool_gateway.upstreams.oauth import tokens as kept
from tool_gateway.upstreams.oauth.terms import (
    ClientCredentials,
    ClientMethod,
    Forward,
    TokenExchange,
    UpstreamAuth,
    WorkloadIdentity,
)

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]
SERVERS = pytest.mark.parametrize("versions", [SESSIONS, STATELESS], ids=["sessions", "stateless"])


@dataclass
class World:
    """A gateway before an upstream that wants tokens."""

    there: Authority
    up: Protected
    on: Stage

    async def echo(self, text: str = "hello", mode: Any = NEW, **who: Any) -> str:
        async with self.on.client(mode, **who) as client:
            return text_of(await client.call_tool("one__echo", {"text": text}))


@asynccontextmanager
async def world(
    auth: UpstreamAuth | None = None,
    *,
    versions: tuple[str, ...] = STATELESS,
    before: Any = None,
) -> AsyncIterator[World]:
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(authority())
        up, spec = await stack.enter_async_context(protected(there, auth=auth, versions=versions))
        if before is not None:
            before(up)
        on = await stack.enter_async_context(Stage().serving(spec))
        yield World(there, up, on)


@SERVERS
@pytest.mark.requirement("oauth.upstream-credentials")
async def test_a_token_is_found_asked_for_once_and_sent_with_each_request(
    versions: tuple[str, ...],
) -> None:
    async with world(versions=versions) as here:
        assert await here.echo("one") == "one"
        assert await here.echo("two") == "two"

    [token] = here.there.issued
    assert set(here.up.tokens("tools/call")) == {token}
    assert here.there.asked == [{"grant_type": "client_credentials", "resource": here.up.url}]


async def test_what_the_operator_names_is_asked_without_waiting_for_a_challenge() -> None:
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(authority())
        client = a_client(issuer=there.issuer, scopes=("files",), resource="api://files")
        up, spec = await stack.enter_async_context(
            protected(there, auth=ClientCredentials(client=client))
        )
        up.trusts = ("api://files",)
        on = await stack.enter_async_context(Stage().serving(spec))
        assert await World(there, up, on).echo() == "hello"

    assert None not in [one.token for one in up.seen]
    assert there.asked == [
        {"grant_type": "client_credentials", "resource": "api://files", "scope": "files"}
    ]


@pytest.mark.parametrize("method", [ClientMethod.POST, ClientMethod.BASIC])
async def test_a_client_secret_is_sent_as_the_operator_says(method: ClientMethod) -> None:
    async with world(ClientCredentials(client=a_client(method=method))) as here:
        await here.echo()

    assert ("client_secret" in here.there.asked[0]) is (method is ClientMethod.POST)


async def test_a_client_proves_itself_with_a_key(private_key: Any) -> None:
    pem, public = private_key
    sign = assertion_of("flyball", pem, key_id="k1", clock=SystemClock())
    client = a_client(secret=None, assertion=sign)

    def before(up: Protected) -> None:
        up.there.client_keys = {"flyball": public}

    async with world(ClientCredentials(client=client), before=before) as here:
        assert await here.echo() == "hello"

    [asked] = here.there.asked
    assert asked["client_assertion_type"] == ASSERTION
    assert claims_in(asked["client_assertion"])["aud"] == here.there.issuer


async def test_what_the_platform_says_of_the_workload_is_read_anew_for_each_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "PAUSE_S", 0.0)
    (tmp_path / "token").write_text("first-assertion\n")
    auth = WorkloadIdentity(client=a_client(secret=None), assertion_file=tmp_path / "token")
    async with world(auth) as here:
        await here.echo()
        (tmp_path / "token").write_text("second-assertion\n")
        here.up.revoked.add(here.there.issued[0])
        await here.echo()

    asked = [(one["grant_type"], one["assertion"]) for one in here.there.asked]
    assert asked == [(BEARER, "first-assertion"), (BEARER, "second-assertion")]
    assert "client_secret" not in here.there.asked[0]


async def test_an_assertion_that_is_not_there_is_named(tmp_path: Path) -> None:
    client = a_client(secret=None)
    async with world(WorkloadIdentity(client=client, assertion_file=tmp_path / "none")) as here:
        [connection] = here.on.fleet.connections

        assert f"{tmp_path}/none cannot be read: No such file" in connection.problem


@SERVERS
@pytest.mark.requirement("oauth.upstream-credentials")
async def test_a_redirect_to_another_server_is_sent_no_token(versions: tuple[str, ...]) -> None:
    heard: list[Any] = []

    async def thief(scope: Scope, receive: Receive, send: Send) -> None:
        heard.append(scope["headers"])
        await Response(status_code=404)(scope, receive, send)

    async with (
        served(thief) as elsewhere,
        world(versions=versions) as here,
        here.on.client() as client,
    ):
        here.up.moved_to = f"{elsewhere}/mcp"

        # Either way out says it in its own way.
        with suppress(MCPError):
            assert (await client.call_tool("one__echo", {"text": "x"})).is_error

    assert len(here.up.tokens("tools/call")) == 1
    assert heard == []


@SERVERS
async def test_a_token_that_the_upstream_takes_back_is_replaced_once(
    versions: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "PAUSE_S", 0.0)
    async with world(versions=versions) as here:
        await here.echo()
        here.up.revoked.add(here.there.issued[0])

        assert await here.echo("again") == "again"

    assert len(here.there.issued) == 2


async def test_an_upstream_that_refuses_every_token_is_told_so_and_asked_no_further() -> None:
    async with world() as here, here.on.client() as client:
        here.up.trusts = ()
        here.up.url = "https://other.example.org"
        asked = len(here.there.asked)

        answer = await client.call_tool("one__echo", {"text": "x"})

    assert answer.is_error
    assert "refuses its credentials (HTTP 401)" in text_of(answer)
    # The token was issued a moment ago: another would be no better.
    assert len(here.there.asked) == asked


async def test_many_calls_at_once_ask_for_one_token() -> None:
    async with world() as here, here.on.client() as client:
        here.on.fleet.connections[0].credentials._kept._slots.clear()  # type: ignore[union-attr]
        before = len(here.there.issued)

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(client.call_tool, "one__echo", {"text": str(number)})

    assert len(here.there.issued) == before + 1


@SERVERS
async def test_a_scope_that_a_call_needs_is_asked_for_beside_the_others(
    versions: tuple[str, ...],
) -> None:
    def before(up: Protected) -> None:
        up.metadata = {"scopes_supported": ["files:read"]}
        up.scopes = {"tools/call": "files:write"}

    async with world(versions=versions, before=before) as here:
        assert await here.echo() == "hello"

    assert [one.get("scope") for one in here.there.asked] == [
        "files:read",
        "files:read files:write",
    ]


async def test_no_upstream_can_widen_the_scopes_that_the_operator_named() -> None:
    def before(up: Protected) -> None:
        up.scopes = {"tools/call": "admin"}

    client = a_client(scopes=("files:read",))
    async with world(ClientCredentials(client=client), before=before) as here:
        told = await here.echo()

    assert "refuses its credentials (HTTP 403)" in told
    assert {one["scope"] for one in here.there.asked} == {"files:read"}


@SERVERS
@pytest.mark.requirement("oauth.upstream-credentials")
@pytest.mark.parametrize("mode", [NEW, OLD])
async def test_each_callers_token_is_exchanged_for_its_own(
    versions: tuple[str, ...], mode: str
) -> None:
    async with world(TokenExchange(client=a_client()), versions=versions) as here:
        ada, bob = here.there.token(sub="ada"), here.there.token(sub="bob")
        for _ in range(2):
            await here.echo("a", mode, who="ada", bearer=ada)
            await here.echo("b", mode, who="bob", bearer=bob)

    exchanged = [one for one in here.there.asked if one["grant_type"] == EXCHANGE]
    assert [one["subject_token"] for one in exchanged] == [ada, bob]
    sent = [claims_in(str(token))["sub"] for token in here.up.tokens("tools/call") if token]
    assert sent[-4:] == ["ada", "bob", "ada", "bob"]
    # A caller's own token stays here.
    assert {ada, bob}.isdisjoint(one.token for one in here.up.seen)


@SERVERS
@pytest.mark.requirement("oauth.upstream-credentials")
async def test_a_callers_token_is_forwarded_only_where_that_is_said(
    versions: tuple[str, ...],
) -> None:
    def before(up: Protected) -> None:
        # The sidecar has no token of its own to look around with.
        up.opens = frozenset({"server/discover", "tools/list", "initialize", "GET", "DELETE"})
        up.opens |= {"notifications/initialized", "resources/list", "subscriptions/listen"}
        up.trusts = ("https://flyball.example.org/mcp",)

    async with world(Forward(), versions=versions, before=before) as here:
        token = here.there.token(aud="https://flyball.example.org/mcp")
        assert await here.echo("mine", bearer=token) == "mine"

    assert here.up.tokens("tools/call") == [token]


@SERVERS
@pytest.mark.requirement("oauth.upstream-credentials")
async def test_the_sidecars_own_header_gives_way_to_the_token_of_a_caller(
    versions: tuple[str, ...],
) -> None:
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(authority())
        up, spec = await stack.enter_async_context(
            protected(there, auth=Forward(), versions=versions)
        )
        own, callers = there.token(aud=up.url, sub="own"), there.token(aud=up.url, sub="ada")
        looking = replace(spec, headers={"Authorization": f"Bearer {own}"})
        on = await stack.enter_async_context(Stage().serving(looking))
        assert await World(there, up, on).echo(bearer=callers) == "hello"

    assert up.tokens("tools/call") == [callers]
    assert own in up.tokens("tools/list")


@pytest.mark.parametrize("auth", [Forward(), TokenExchange(client=a_client())])
@pytest.mark.requirement("oauth.upstream-credentials")
async def test_a_caller_without_a_token_is_nobody_at_such_an_upstream(auth: UpstreamAuth) -> None:
    def before(up: Protected) -> None:
        up.opens = frozenset({"server/discover", "tools/list", "subscriptions/listen"})

    async with world(auth, before=before) as here:
        told = await here.echo()

    assert "acts for its callers: come with an access token" in told
    assert here.up.tokens("tools/call") == []


@pytest.mark.requirement("oauth.upstream-credentials")
async def test_no_upstream_is_sent_anothers_token() -> None:
    async with AsyncExitStack() as stack:
        there = await stack.enter_async_context(authority())
        one, first = await stack.enter_async_context(protected(there, name="one"))
        two, second = await stack.enter_async_context(protected(there, name="two"))
        on = await stack.enter_async_context(Stage().serving(first, second))
        async with on.client() as client:
            await client.call_tool("one__echo", {"text": "1"})
            await client.call_tool("two__echo", {"text": "2"})

    sent = [{seen.token for seen in up.seen if seen.token} for up in (one, two)]
    assert [len(tokens) for tokens in sent] == [1, 1]
    assert sent[0].isdisjoint(sent[1])
    assert [claims_in(token)["aud"] for tokens in sent for token in tokens] == [one.url, two.url]


@pytest.mark.requirement("egress.checked-addresses")
@pytest.mark.parametrize(
    ("metadata", "told"),
    [
        ({"authorization_servers": ["https://10.0.0.1"]}, "private address, and a server named"),
        ({"authorization_servers": ["https://169.254.169.254"]}, "metadata service"),
        ({"authorization_servers": ["http://login.example.org"]}, "no https address"),
        ({"authorization_servers": ["https://u:p@login.example.org"]}, "no https address"),
        ({"authorization_servers": []}, "names no authorization server"),
        ({"resource": "https://evil.example.com/mcp"}, "its metadata is that of"),
    ],
)
async def test_what_an_upstream_says_leads_nowhere_it_may_not(
    metadata: dict[str, Any], told: str
) -> None:
    def before(up: Protected) -> None:
        up.metadata = metadata

    async with world(before=before) as here:
        [connection] = here.on.fleet.connections
        assert told in connection.problem

    assert here.there.asked == []


@pytest.mark.requirement("egress.checked-addresses")
async def test_without_the_operators_word_a_token_endpoint_on_this_machine_is_not_asked() -> None:
    client = replace(a_client(), learned=replace(a_client().learned, networks=()))
    async with world(ClientCredentials(client=client)) as here:
        [connection] = here.on.fleet.connections
        assert "127.0.0.1 is a loopback address, and a server named it" in connection.problem

    assert here.there.seen == []


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (JSONResponse({"error": "invalid_client"}, status_code=401), "HTTP 401 (invalid_client)"),
        (JSONResponse({"error": "Echo: s3cret-of-flyball"}, status_code=400), "HTTP 400"),
        (JSONResponse({"error_description": "s3cret-of-flyball"}, status_code=400), "HTTP 400"),
        (Response("s3cret-of-flyball", status_code=200), "not JSON"),
        (JSONResponse({"token_type": "Bearer"}), "has no token"),
        (JSONResponse({"access_token": "a\r\nb: c", "token_type": "Bearer"}), "in a header"),
        (JSONResponse({"access_token": "abc", "token_type": "mac"}), "not a bearer token"),
        (Response(status_code=302, headers={"location": "http://127.0.0.1:9/"}), "HTTP 302"),
    ],
)
@pytest.mark.requirement("oauth.secrets-stay-here")
async def test_a_token_endpoint_that_fails_is_told_without_what_it_was_sent(
    answer: Response, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    def before(up: Protected) -> None:
        up.there.answer = answer

    async with world(before=before) as here:
        [connection] = here.on.fleet.connections

        assert told in connection.problem
        assert "s3cret-of-flyball" not in connection.problem + caplog.text
