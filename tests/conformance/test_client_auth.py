"""The suite's scenarios for OAuth clients, played by a sidecar with `[upstream.auth]`.

A sidecar is a client without a person: it has credentials of its own (client credentials), and
no browser, so that it neither registers itself nor asks for an authorization code. What of a
scenario is about these is pinned here, each scenario with the reason.
"""

import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.conformance.test_conformance import run_suite

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

PASSED = (
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/metadata-issuer-mismatch",
    "auth/pre-registration",
    "auth/resource-mismatch",
    "auth/wif-jwt-bearer",
)

# What a scenario wants of a client that a person sits at, beyond what is found before that.
_RESOURCE = frozenset({"resource-parameter-in-authorization"})
_CODE = _RESOURCE | {
    *("client-registration", "authorization-request", "token-request"),
    "resource-parameter-in-token",
}
_DISCOVERY = frozenset({"authorization-server-metadata", "prm-pathbased-requested"})
_TOKEN = frozenset(
    {
        *("token-request", "token-endpoint-auth-method", "valid-bearer-token"),
        *("resource-parameter-in-token", "resource-parameter-matches-prm"),
    }
)

# Scenario: what passes of it, and what fails because it needs a browser or a registration.
PARTLY = {
    "auth/metadata-default": (_DISCOVERY, _CODE),
    "auth/metadata-var1": (_DISCOVERY, _CODE),
    "auth/metadata-var2": (_DISCOVERY, _CODE),
    "auth/metadata-var3": (_DISCOVERY, _CODE),
    "auth/token-endpoint-auth-basic": (_DISCOVERY | _TOKEN, _RESOURCE),
    "auth/token-endpoint-auth-post": (_DISCOVERY | _TOKEN, _RESOURCE),
}

_BROWSER = "asks for an authorization code, for which a person logs in with a browser"
_OLD = "the discovery of 2025-03-26, without resource metadata: name the issuer instead"
_DPOP = "proof of possession, which the sidecar does not offer"
INAPPLICABLE = {
    "auth/2025-03-26-oauth-endpoint-fallback": _OLD,
    "auth/2025-03-26-oauth-metadata-backcompat": _OLD,
    "auth/authorization-server-migration": _BROWSER,
    "auth/basic-cimd": "registers by a URL of its own metadata, then " + _BROWSER,
    "auth/dpop": _DPOP,
    "auth/dpop-nonce": _DPOP,
    "auth/enterprise-managed-authorization": "exchanges a person's ID token at two servers",
    "auth/iss-normalized": _BROWSER,
    "auth/iss-not-advertised": _BROWSER,
    "auth/iss-supported": _BROWSER,
    "auth/iss-supported-missing": _BROWSER,
    "auth/iss-unexpected": _BROWSER,
    "auth/iss-wrong-issuer": _BROWSER,
    "auth/offline-access-not-supported": "asks for a refresh token, then " + _BROWSER,
    "auth/offline-access-scope": "asks for a refresh token, then " + _BROWSER,
    # Scopes of challenges are played over client credentials in test_credentials.
    "auth/scope-from-scopes-supported": _BROWSER,
    "auth/scope-from-www-authenticate": _BROWSER,
    "auth/scope-omitted-when-undefined": _BROWSER,
    "auth/scope-retry-limit": _BROWSER,
    "auth/scope-step-up": _BROWSER,
    "auth/token-endpoint-auth-none": "a client without a secret or a key, which registers itself",
}

_LISTED = re.compile(r"^ +- (auth/\S+)", re.MULTILINE)
_CHECKED = re.compile(r"\[([\w./-]+) *\] (SUCCESS|FAILURE|WARNING)")
_COLOUR = re.compile(r"\x1b\[\d+m")


def played(scenario: str, folder: Path) -> str:
    driver = shlex.join([sys.executable, str(Path(__file__).parent / "driver.py")])
    text = run_suite(
        *("client", "--command", driver, "--scenario", scenario, "-o", str(folder)),
        *("--timeout", "90000"),
    )
    return _COLOUR.sub("", text)


@pytest.mark.requirement("protocol.is-conformant")
@pytest.mark.parametrize("scenario", PASSED)
def test_a_sidecar_gets_its_tokens_as_the_suite_says(tmp_path: Path, scenario: str) -> None:
    text = played(scenario, tmp_path)

    assert "OVERALL: PASSED" in text, text


@pytest.mark.requirement("protocol.is-conformant")
@pytest.mark.parametrize("scenario", PARTLY)
def test_what_comes_before_a_browser_passes_and_nothing_else_fails(
    tmp_path: Path, scenario: str
) -> None:
    passes, fails = PARTLY[scenario]

    text = played(scenario, tmp_path)

    checked = _CHECKED.findall(text)
    assert {name for name, mark in checked if mark == "SUCCESS"} >= passes, text
    assert {name for name, mark in checked if mark != "SUCCESS"} == fails, text


def test_every_scenario_is_played_or_has_a_reason() -> None:
    known = {*PASSED, *PARTLY, *INAPPLICABLE}

    assert set(_LISTED.findall(run_suite("list", "--client"))) == known
    assert len(known) == len(PASSED) + len(PARTLY) + len(INAPPLICABLE)
