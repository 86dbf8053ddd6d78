"""Where documents stand, which addresses are taken from servers, and what challenges say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tool_gateway.errors import UpstreamFailedError
from tool_gateway.upstreams.oauth.addresses import (
    checked_url,
    covers,
    origin_text,
    resource_metadata_urls,
    server_metadata_urls,
)
from tool_gateway.upstreams.oauth.challenge import Challenge, challenge_of

HOST = "https://a.example.org"
RESOURCE = "/.well-known/oauth-protected-resource"
SERVER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


@pytest.mark.parametrize(
    ("url", "places"),
    [
        (f"{HOST}/mcp", [f"{HOST}{RESOURCE}/mcp", f"{HOST}{RESOURCE}"]),
        (f"{HOST}:8443/a/b/", [f"{HOST}:8443{RESOURCE}/a/b", f"{HOST}:8443{RESOURCE}"]),
        (HOST, [f"{HOST}{RESOURCE}"]),
        (f"{HOST}/", [f"{HOST}{RESOURCE}"]),
    ],
)
def test_a_resources_metadata_stands_before_its_path_then_at_the_root(
    url: str, places: list[str]
) -> None:
    assert list(resource_metadata_urls(url)) == places


@pytest.mark.parametrize(
    ("issuer", "places"),
    [
        (HOST, [f"{HOST}{SERVER}", f"{HOST}{OPENID}"]),
        (
            f"{HOST}/tenant1",
            [f"{HOST}{SERVER}/tenant1", f"{HOST}{OPENID}/tenant1", f"{HOST}/tenant1{OPENID}"],
        ),
    ],
)
def test_a_servers_metadata_stands_where_both_standards_put_it(
    issuer: str, places: list[str]
) -> None:
    assert list(server_metadata_urls(issuer)) == places


@pytest.mark.parametrize(
    ("resource", "does"),
    [
        (f"{HOST}/mcp", True),
        (f"{HOST}/mcp/", True),
        (HOST, True),
        ("https://A.example.org:443/mcp", True),
        (f"{HOST}/other", False),
        (f"{HOST}/mc", False),
        (f"{HOST}:8443/mcp", False),
        ("http://a.example.org/mcp", False),
        ("https://a.example.org.evil.example/mcp", False),
        (f"{HOST}:99999/mcp", False),
        (f"{HOST}:x/mcp", False),
        ("https://[bad/mcp", False),
    ],
)
def test_a_resource_is_the_upstream_or_stands_above_it(resource: str, *, does: bool) -> None:
    assert covers(resource, f"{HOST}/mcp") is does


@pytest.mark.parametrize(
    "url", [f"{HOST}/token", "http://127.0.0.1:8080/token", "http://localhost/token"]
)
def test_protected_addresses_are_taken_from_servers(url: str) -> None:
    assert checked_url(url, what="token_endpoint") == url


@pytest.mark.parametrize(
    "url",
    [
        *("http://a.example.org/token", "https://u:p@a.example.org/", "file:///etc/passwd", ""),
        *("https://", f"{HOST}/#x", f"{HOST}/" + "x" * 3000, "https://[::1", None, 7, "ftp://a/"),
        *(f"{HOST}:99999/", "https://1.2.3.4%25x/a", "https://a%41.example.org/"),
    ],
)
def test_no_others_are(url: object) -> None:
    with pytest.raises(UpstreamFailedError, match=r"^token_endpoint: "):
        checked_url(url, what="token_endpoint")


@pytest.mark.parametrize(
    ("status", "header", "found"),
    [
        (401, "Bearer", Challenge(status=401)),
        (401, "", Challenge(status=401)),
        (
            401,
            'Bearer realm="x, y", scope="a b a", resource_metadata="https://a/b"',
            Challenge(status=401, scopes=("a", "b"), resource_metadata="https://a/b"),
        ),
        (401, 'Basic realm="scope=no", bearer scope=a', Challenge(status=401, scopes=("a",))),
        (401, 'Bearer realm="say \\"scope=no\\""', Challenge(status=401)),
        (
            403,
            'Bearer error="insufficient_scope", scope="w"',
            Challenge(status=403, scopes=("w",)),
        ),
        (403, 'Bearer error="invalid_token"', None),
        (403, "", None),
        (200, "Bearer", None),
    ],
)
def test_a_challenge_is_read_as_it_is_meant(
    status: int, header: str, found: Challenge | None
) -> None:
    assert challenge_of(status, header) == found


@given(st.sampled_from([401, 403]), st.text(max_size=300))
def test_no_header_breaks_the_reading(status: int, header: str) -> None:
    found = challenge_of(status, f"Bearer {header}")

    assert found is None or found.status == status


@given(st.text(max_size=100))
def test_no_text_is_taken_for_an_address_that_it_is_not(text: str) -> None:
    try:
        taken = checked_url(text, what="x")
    except UpstreamFailedError:
        return
    assert origin_text(taken).startswith(("https://", "http://"))
