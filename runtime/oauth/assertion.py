"""Assertions that prove, without a shared secret, which client asks for a token (RFC 7523)."""

from collections.abc import Callable

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from runtime.clock import SystemClock

Signing = RSAPrivateKey | EllipticCurvePrivateKey | Ed25519PrivateKey
LIFETIME_S = 60
RSA_BITS_MIN = 2048
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}


class UnusableKeyError(ValueError):
    """It is no unencrypted private key in PEM that signs with RSA, EC or Ed25519."""

    def __init__(self) -> None:
        """Say so in the docstring's words: nothing of a key is ever quoted."""
        super().__init__(type(self).__doc__)


def assertion_of(
    client_id: str, pem: str, *, key_id: str | None, clock: SystemClock
) -> Callable[[str], str]:
    """Return what signs for an audience that it is `client_id` who asks.

    Raises:
        UnusableKeyError: nothing can be signed with this key.
    """
    key, algorithm = _signing(pem)
    headers = None if key_id is None else {"kid": key_id}

    def signed_for(audience: str) -> str:
        now_s = clock.now_ms() // 1000
        claims = {
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "iat": now_s,
            "exp": now_s + LIFETIME_S,
            "jti": clock.fresh("assertion"),
        }
        return jwt.encode(claims, key, algorithm=algorithm, headers=headers)

    return signed_for


def _signing(pem: str) -> tuple[Signing, str]:
    """Return the key, and what it signs with."""
    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError) as error:
        raise UnusableKeyError from error
    match key:
        case EllipticCurvePrivateKey() if key.curve.name in _CURVES:
            return key, _CURVES[key.curve.name]
        case RSAPrivateKey() if key.key_size >= RSA_BITS_MIN:
            return key, "RS256"
        case Ed25519PrivateKey():
            return key, "EdDSA"
        case _:
            raise UnusableKeyError
