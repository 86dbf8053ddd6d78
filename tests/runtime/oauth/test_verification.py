"""Which tokens are accepted: every claim, every header, every way that keys can change."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from governor.ids import TenantId
from runtime.clock import SystemClock
from runtime.oauth import keys as ring_of
from runtime.oauth.claims import Bearing, Refused, agent_id
from runtime.oauth.terms import ServerTerms
from runtime.oauth.verification import VERIFIED_MAX, Verifier
from tests.authority import Authority, SigningKey, authority
from tool_gateway.errors import EgressDeniedError, UpstreamError
from tool_gateway.upstreams.fetching import Fetcher

pytestmark = pytest.mark.anyio
RESOURCE = "https://flyball.example.org/mcp"


class TurnedClock(SystemClock):
    """The real clock, ahead by as much as a test says."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms

    def elapsed_ms(self) -> int:
        return super().elapsed_ms() + self.ahead_ms


@dataclass
class World:
    """An authorization server, and a verifier of its tokens."""

    there: Authority
    terms: ServerTerms
    clock: TurnedClock = field(default_factory=TurnedClock)

    def __post_init__(self) -> None:
        self.verifier = self.verifier_of(self.terms)

    def verifier_of(self, *terms: ServerTerms) -> Verifier:
        return Verifier(terms, leeway_s=30, fetcher=Fetcher(), clock=self.clock)

    def token(self, **claims: Any) -> str:
        return self.there.token(**{"aud": RESOURCE, **claims})

    async def refusal(self, **claims: Any) -> str:
        found = await self.verifier.verified(self.token(**claims))
        assert isinstance(found, Refused), found
        return found.why

    async def accepts(self, token: str) -> bool:
        return isinstance(await self.verifier.verified(token), Bearing)


def terms_of(there: Authority, **more: Any) -> ServerTerms:
    usual: dict[str, Any] = {"audiences": frozenset({RESOURCE}), "tenant": TenantId("acme")}
    return ServerTerms(issuer=there.issuer, **{**usual, **more})


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with authority() as there:
        yield World(there, terms_of(there))


@pytest.mark.requirement("oauth.only-good-tokens")
async def test_a_good_token_names_its_agent_tenant_and_scopes(world: World) -> None:
    found = await world.verifier.verified(world.token(scope="mcp files:read"))

    assert isinstance(found, Bearing)
    assert (found.tenant, found.agent) == ("acme", "ada")
    assert found.scopes == {"mcp", "files:read"}


@pytest.mark.requirement("oauth.only-good-tokens")
@pytest.mark.parametrize(
    ("claims", "told"),
    [
        ({"aud": "https://other.example.org/mcp"}, "for another resource"),
        ({"aud": None}, "for another resource"),
        ({"aud": [7]}, "for another resource"),
        ({"aud": RESOURCE + "/"}, "for another resource"),
        ({"exp": int(time.time()) - 60}, "has expired"),
        ({"exp": None}, "has no expiry"),
        ({"exp": "never"}, "has no expiry"),
        ({"exp": True}, "has no expiry"),
        ({"nbf": int(time.time()) + 86_400}, "not good yet"),
        ({"iat": int(time.time()) + 86_400}, "issued in the future"),
        ({"sub": None}, "has no sub"),
        ({"sub": ""}, "has no sub"),
        ({"cnf": {"jkt": "x"}}, "bound to a key"),
        ({"iss": "https://evil.example.org"}, "issuer that is not accepted"),
        ({"header": {"typ": "dpop+jwt"}}, "not an access token"),
        ({"header": {"crit": ["exp"]}}, "no token"),
    ],
)
async def test_a_token_with_a_wrong_claim_is_refused(
    world: World, claims: dict[str, Any], told: str
) -> None:
    why = await world.refusal(**claims)

    assert told in why


@pytest.mark.parametrize("typ", ["at+jwt", "AT+JWT", "application/at+jwt", "JWT", "jwt"])
async def test_types_of_access_tokens_are_taken_however_they_are_written(
    world: World, typ: str
) -> None:
    assert await world.accepts(world.token(header={"typ": typ}))


async def test_one_of_several_audiences_is_enough(world: World) -> None:
    assert await world.accepts(world.token(aud=["https://other.example.org", RESOURCE]))


async def test_clocks_may_differ_by_the_leeway(world: World) -> None:
    now = int(time.time())

    assert await world.accepts(world.token(exp=now - 20, nbf=now + 20, iat=now + 20))


def forged(header: dict[str, Any], claims: dict[str, Any], *, secret: bytes | None) -> str:
    """Return a token as an attacker makes one: unsigned, or signed with what is public."""
    parts = [json.dumps(part).encode() for part in (header, claims)]
    text = ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
    made = b"" if secret is None else hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(made).rstrip(b'=').decode()}"


@pytest.mark.requirement("oauth.only-good-tokens")
@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "HS512", ""])
async def test_a_token_that_is_not_signed_with_a_private_key_is_refused(
    world: World, algorithm: str
) -> None:
    public = world.there.keys[0].private.public_key()
    known = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    claims = {"iss": world.there.issuer, "sub": "ada", "aud": RESOURCE, "exp": time.time() + 60}
    header = {"alg": algorithm, "typ": "at+jwt", "kid": "first"}

    for secret in (None, known):
        found = await world.verifier.verified(forged(header, claims, secret=secret))

        assert found == Refused(why="the token's algorithm is not accepted")


async def test_a_signature_by_another_key_of_the_same_name_is_refused(world: World) -> None:
    assert "signature" in await world.refusal(key=SigningKey("first"))


async def test_a_changed_claim_breaks_the_signature(world: World) -> None:
    header, _, signature = world.token().split(".")
    _, payload, _ = world.token(sub="root").split(".")

    assert not await world.accepts(f"{header}.{payload}.{signature}")


@pytest.mark.parametrize("algorithm", [[], {}, ["ES256"], None, 7, True])
async def test_an_algorithm_that_is_no_text_is_refused_like_any_other(
    world: World, algorithm: Any
) -> None:
    header = {"alg": algorithm, "typ": "at+jwt", "kid": "first"}

    found = await world.verifier.verified(forged(header, {"iss": world.there.issuer}, secret=b"x"))

    assert found == Refused(why="the token's algorithm is not accepted")


@pytest.mark.parametrize("token", ["", "a.b", "a.b.c", "..", "a.b.c.d", "é.b.c", "x" * 20_000])
async def test_what_is_no_token_is_refused(world: World, token: str) -> None:
    assert isinstance(await world.verifier.verified(token), Refused)
    assert world.there.seen == []


async def test_a_key_of_another_algorithm_than_it_is_for_is_not_used(world: World) -> None:
    world.there.keys = [SigningKey("rsa", algorithm="RS256")]
    other = SigningKey("rsa", algorithm="PS256", private=world.there.keys[0].private)

    assert await world.accepts(world.token())
    assert "does not have" in await world.refusal(key=other)


@pytest.mark.requirement("oauth.keys-rotate")
async def test_a_new_key_is_fetched_when_a_token_names_it(world: World) -> None:
    assert await world.accepts(world.token())
    world.there.keys.insert(0, SigningKey("second"))
    world.clock.ahead_ms += ring_of.FETCH_EVERY_MS

    assert await world.accepts(world.token())
    assert world.there.counted("/jwks") == 2


@pytest.mark.requirement("oauth.keys-rotate")
async def test_made_up_key_names_do_not_have_the_server_asked_each_time(world: World) -> None:
    assert await world.accepts(world.token())
    for number in range(20):
        assert "does not have" in await world.refusal(key=SigningKey(f"made-up-{number}"))

    assert world.there.counted("/jwks") == 1


@pytest.mark.requirement("oauth.keys-rotate")
async def test_a_key_that_was_taken_back_is_accepted_no_more_once_keys_are_old(
    world: World,
) -> None:
    token = world.token()
    assert await world.accepts(token)
    world.there.keys = [SigningKey("second")]
    world.clock.ahead_ms += ring_of.FRESH_MS + 1
    # It would not have expired yet.
    later = world.token(key=SigningKey("second"), exp=int(time.time()) + 3600)

    assert not await world.accepts(later)
    assert not await world.accepts(token)


@pytest.mark.parametrize("kind", [[], {"a": 1}, None, 7])
async def test_a_key_that_is_none_leaves_the_others_as_they_are(kind: Any) -> None:
    class Odd(SigningKey):
        def public(self) -> dict[str, Any]:
            return {**super().public(), "kty": kind}

    async with authority() as there:
        there.keys.append(Odd("odd"))
        world = World(there, terms_of(there))

        assert await world.accepts(world.token())


@pytest.mark.requirement("oauth.keys-rotate")
async def test_known_keys_serve_while_the_server_is_down_and_not_for_ever(world: World) -> None:
    expires = int(time.time()) + 7 * 24 * 3600
    token = world.token(exp=expires)
    assert await world.accepts(token)
    world.there.is_down = True

    world.clock.ahead_ms = ring_of.STALE_MS_MAX - 60_000
    assert await world.accepts(token)

    world.clock.ahead_ms = ring_of.STALE_MS_MAX + 60_000
    with pytest.raises(UpstreamError, match="keys cannot be had"):
        await world.verifier.verified(token)


async def test_a_server_that_is_down_from_the_start_refuses_nobody_for_a_bad_token(
    world: World,
) -> None:
    world.there.is_down = True

    with pytest.raises(UpstreamError):
        await world.verifier.verified(world.token())
    with pytest.raises(UpstreamError):
        await world.verifier.verified(world.token())
    assert world.there.counted("/.well-known") == 1


async def test_a_verified_token_is_not_verified_again_until_it_expires(world: World) -> None:
    token = world.token()
    first = await world.verifier.verified(token)

    assert await world.verifier.verified(token) is first

    world.clock.ahead_ms = 400_000
    assert await world.verifier.verified(token) == Refused(why="the token has expired")


async def test_what_is_remembered_is_bounded(world: World) -> None:
    for number in range(VERIFIED_MAX + 5):
        world.verifier._keep(number.to_bytes(4), None)  # type: ignore[arg-type]

    assert len(world.verifier._verified) == VERIFIED_MAX


async def test_metadata_of_another_issuer_gives_no_keys(world: World) -> None:
    world.there.extra_metadata = {"issuer": "https://evil.example.org"}

    with pytest.raises(UpstreamError, match="keys cannot be had"):
        await world.verifier.verified(world.token())


@pytest.mark.requirement("egress.checked-addresses")
async def test_keys_that_a_server_says_are_elsewhere_are_not_fetched_from_private_networks(
    world: World,
) -> None:
    world.there.extra_metadata = {"jwks_uri": "https://10.0.0.1/jwks"}

    with pytest.raises(UpstreamError, match="private address, and a server named it"):
        await world.verifier.verified(world.token())


async def test_an_issuer_whose_name_leads_inside_is_not_asked(world: World) -> None:
    inside = replace(world.terms, issuer="http://2130706433:9")
    token = world.there.token(iss=inside.issuer, aud=RESOURCE)

    with pytest.raises(UpstreamError, match="leads to 127"):
        await world.verifier_of(inside).verified(token)
    assert issubclass(EgressDeniedError, UpstreamError)


async def test_claims_say_which_tenant_and_agent_where_the_operator_says_which_claims(
    world: World,
) -> None:
    terms = terms_of(world.there, agent_claim="client_id", agent_prefix="x-", tenant_claim="org")
    verifier = world.verifier_of(terms)

    found = await verifier.verified(world.token(client_id="bot", org="umbrella"))
    missing = await verifier.verified(world.token(client_id="bot"))

    assert isinstance(found, Bearing)
    assert (found.tenant, found.agent) == ("umbrella", "x-bot")
    assert missing == Refused(why="the token has no org that is a tenant")


def test_a_subject_that_is_no_id_gets_one_that_depends_on_its_issuer() -> None:
    ours = ServerTerms(issuer="https://a", audiences=frozenset(), tenant=TenantId("acme"))
    theirs = replace(ours, issuer="https://b")

    assert agent_id("ada", ours) == "ada"
    assert agent_id("auth0|5f7c", ours).startswith("o-")
    assert agent_id("auth0|5f7c", ours) != agent_id("auth0|5f7c", theirs)
    # Who is called like the hash of another is not the other.
    assert agent_id(agent_id("auth0|5f7c", ours), ours) != agent_id("auth0|5f7c", ours)


@pytest.mark.requirement("oauth.keys-rotate")
async def test_nobody_waits_for_a_server_that_hangs_while_known_keys_may_serve(
    world: World,
) -> None:
    token = world.token(exp=int(time.time()) + 24 * 3600)
    assert await world.accepts(token)
    world.clock.ahead_ms += ring_of.FRESH_MS + 1
    world.there.hangs = anyio.Event()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.accepts, token)  # this one asks the server
            while world.there.counted("/.well-known") < 2:
                await anyio.lowlevel.checkpoint()
            assert await world.accepts(token)
            world.there.hangs.set()
