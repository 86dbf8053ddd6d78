"""What sessions that share a machine are promised, and how that is measured."""

ISOLATION = {
    "isolation.admission": (
        "A local call waits while its estimate does not fit beside what runs, in the order of "
        "priorities, and nobody is passed for ever."
    ),
    "isolation.low-stands-still": (
        "Where running calls may not fit together, the sessions of lower priority stand still "
        "until they do, and nothing is killed."
    ),
    "isolation.nothing-outgrows": (
        "Calls that keep to their estimates never outgrow the machine, and all of them end."
    ),
    "isolation.bounded-standstill": (
        "What a session stands still for others' want of processors is bounded."
    ),
    "isolation.somebody-runs": "Whatever is seen, some session with calls runs.",
    "eval.os": (
        "Recorded sessions are replayed with real processes, arm by arm in a seeded order; what "
        "is over is kept, missing data and hosts without control groups are refused."
    ),
    "eval.os-intervals": "Figures of a replay come with bootstrap intervals over its mixes.",
    "eval.os-simulated": "A simulated schedule says so, and uses the decisions of the product.",
}
