"""Ask the sidecar beside this process whether it is ready: status 0 if it is, 1 if not.

`FLYBALL_HEALTH_URL` says where it listens for administrators, if not at its usual place. Needs
nothing but the standard library, so that asking every ten seconds costs next to nothing.
"""

import os
import ssl
import sys
import urllib.error
import urllib.request

_USUAL = "http://127.0.0.1:8701/readyz"
_SECONDS_MAX = 4.0
_BYTES_MAX = 4096


def main() -> int:
    """Return 0 if the sidecar is ready; else say why it is not and return 1."""
    url = os.environ.get("FLYBALL_HEALTH_URL") or _USUAL
    if not url.startswith(("http://", "https://")):
        return _told("FLYBALL_HEALTH_URL: expected an http:// or https:// address")
    # It asks itself, where the certificate names somebody else: nothing is sent and only a
    # status is believed.
    unverified = ssl.create_default_context()
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    # Without the environment's proxies, which lead away from here.
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unverified)
    )
    try:
        with opener.open(url, timeout=_SECONDS_MAX):
            return 0
    except urllib.error.HTTPError as error:
        return _told(error.read(_BYTES_MAX).decode(errors="replace") or str(error))
    except OSError as error:
        return _told(str(error))


def _told(words: str) -> int:
    sys.stderr.write(f"not ready: {words}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
