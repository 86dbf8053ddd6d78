"""What Flyball must withstand from the calls that it runs.

A part of `requirements.py`, which holds all of them together.
"""

WITHSTOOD: dict[str, str] = {
    "process.none-escapes-its-call": (
        "A hostile call leaves no process, no control group and no descriptor behind; it leaves "
        "neither its group nor its limits, reads and writes nothing of the state, and signals "
        "neither the sidecar nor other calls, whoever the sidecar runs as."
    ),
    "limit.bad-neighbour-contained": (
        "What takes all it can get (processes, memory of every kind, processors, descriptors, "
        "output) is ended by its own limit, and its neighbours go on."
    ),
    "isolation.says-what-it-lacks": (
        "Where a means of isolation is missing or taken away while a command runs, the command is "
        "refused or ended with the reason."
    ),
}
