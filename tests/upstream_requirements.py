"""What Flyball must do about upstreams that fail, are replaced, or answer too much."""

UPSTREAM_CARE: dict[str, str] = {
    "upstream.breaker-denies-at-once": (
        "An upstream that keeps failing is left alone: its calls are denied before anything "
        "is held, and told when to try again."
    ),
    "upstream.breaker-closes-again": (
        "A failing upstream is asked again by one call after a pause, which grows while that "
        "fails too."
    ),
    "upstream.retried-only-where-safe": (
        "A call is sent again only if provably nothing of it was sent, or if what was "
        "approved of its tool, or the operator, says that twice is once."
    ),
    "upstream.retries-are-bounded": (
        "Retries end after a number of them, and with the time of their call."
    ),
    "upstream.retries-charge-once": (
        "One hold covers all attempts at a call, which is settled once; its record says how "
        "many there were."
    ),
    "upstream.lists-are-partial": (
        "A list shows what is up; beside it stands how each upstream is that the caller may "
        "know of, and nothing beside a sole one's that is shown as it is while all is well."
    ),
    "upstream.start-is-waited-for": (
        "A first call waits for its upstream while that starts, as long as a start may take."
    ),
    "upstream.absence-is-said": (
        "A call of a tool whose upstream is not there says so, not that there is no such tool."
    ),
    "reload.drops-no-call": (
        "A reload of the configuration ends no call: those at an upstream that is replaced or "
        "removed are answered, those to come go to what is in force."
    ),
    "reload.all-or-nothing": (
        "A file that is at fault changes nothing and says what to do; what needs a restart is "
        "named and stays as it is."
    ),
    "reload.is-audited": "Each reload is in the audit log, with who asked for it.",
    "upstream.answers-are-bounded": (
        "No answer of an upstream is read beyond its bound: results, error pages, redirects, "
        "and what the old transport says to a message."
    ),
}
