"""What proves that an experience is still found by what it was written to be found by."""

import hmac

_DOMAIN = b"flyball found by\n"


def seal_of(
    *,
    secret: bytes,
    number: int,
    terms: str,
    vector: bytes | None,
    traits: int,
    tokens: int,
) -> str:
    """Return the keyed digest of what an experience is found by, and is counted as.

    The namespace is not in it: where the words are found is to be where the experience is.
    """
    parts = (
        str(number).encode(),
        terms.encode("utf-8", "surrogatepass"),
        b"-" if vector is None else b"+" + vector,
        str(traits).encode(),
        str(tokens).encode(),
    )
    joined = b"".join([b"%d:%b" % (len(part), part) for part in parts])
    return hmac.digest(secret, _DOMAIN + joined, "sha256").hex()
