"""What Flyball must do about strangers: who comes with a token, and where connections lead.

A part of `requirements.py`, which holds all of them together.
"""

OUTSIDE: dict[str, str] = {
    "oauth.only-good-tokens": (
        "A token of an authorization server lets in whom it stands for only if its signature, "
        "issuer, audience, times and scopes are good, and its agent is not switched off."
    ),
    "oauth.upstream-credentials": (
        "An upstream is sent its own credentials and no other's; a caller's token is exchanged "
        "or forwarded only where the upstream's table says so, and for that caller alone."
    ),
    "oauth.secrets-stay-here": (
        "No secret, key or token is in a log, a record, an error, an answer or a metric."
    ),
    "oauth.refusals-are-bounded": (
        "However an upstream refuses its tokens, few are asked for, with boundedly many scopes."
    ),
    "oauth.keys-rotate": (
        "New keys of an authorization server are fetched when they are met, at a bounded rate; "
        "known ones serve through an outage, for a bounded time."
    ),
    "egress.checked-addresses": (
        "A connection goes to an address that was checked after its name was resolved; to "
        "private networks and metadata services only where the operator said so."
    ),
}
