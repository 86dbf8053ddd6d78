"""What efforts, modes and answers in several rounds must do."""

STRATEGIES: dict[str, str] = {
    "model.effort-in-each-providers-terms": (
        "An effort relative to the usual of its class of query arrives in the parameter of the "
        "tier's own provider, and is held for; where there is none, nothing is sent and it is said."
    ),
    "model.effort-of-the-client-stands": (
        "What a client itself sets of thinking is never changed by a mode, an effort or a tier."
    ),
    "model.cascade-escalates-what-is-unusable": (
        "A draft that is not of the form that was asked for is escalated with itself as data; a "
        "valid one that is good enough is kept."
    ),
    "model.cascade-denied-midway-returns-the-best": (
        "A budget that ends midway ends a cascade with the best answer so far, and says so; every "
        "round is admitted, settled and recorded by itself."
    ),
    "model.auction-bids-are-calls": (
        "Each bid is a governed call of the same turn, and bids are asked for only where they are "
        "expected to bring more than they cost."
    ),
    "model.rounds-stream-as-one-answer": (
        "An answer in several rounds reaches a streaming client as one proper stream of its wire."
    ),
}
