"""What Flyball must do about model providers that fail, refuse or are slow.

A part of `requirements.py`, which holds all of them together.
"""

PROVIDERS: dict[str, str] = {
    "model.retried-only-where-safe": (
        "A model call is sent again within its hold only if whatever was sent before provably "
        "generated nothing; what may have been billed is never repeated in the same hold."
    ),
    "model.retries-are-bounded": (
        "Retries end after a number of them, with the time of their call, and where those of all "
        "calls at a provider have had their share."
    ),
    "model.keys-rest": (
        "A key of a pool that is limited rests as long as the provider says while others are "
        "used; when all rest the client is told when the first is back."
    ),
    "model.refused-key-is-out": (
        "A key that the provider refuses is left out until the configuration is read again, and "
        "shown by the name of its variable."
    ),
    "model.keys-are-never-shown": (
        "No key of a provider is in an answer, a record or what is shown to administrators."
    ),
    "model.fallback-is-admitted-anew": (
        "A call that goes on at another tier is another call: the first is settled or released, "
        "the next is held against the same budgets at its own price, or denied."
    ),
    "model.no-fallback-after-the-first-byte": (
        "Once a client was sent a part of an answer, no other provider continues it."
    ),
    "model.breaker-leaves-a-provider-alone": (
        "A provider that keeps failing is left alone: its calls are denied before anything is "
        "held, `auto` and fallbacks pass it over."
    ),
    "model.time-is-bounded": (
        "The connection, the first token, each next one and the whole call have their own bounds, "
        "and what ran out of time is charged for what may have been generated."
    ),
    "model.session-stays-where-it-is-cached": (
        "A session that a rule would send to a cheaper tier stays where its prompt is cached, "
        "unless what the move saves pays for reading it anew."
    ),
}
