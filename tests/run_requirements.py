"""What Flyball must do about every kind of tool on its machine: programs, servers, agents.

A part of `requirements.py`, which holds all of them together.
"""

RUNS: dict[str, str] = {
    "local.python-run": (
        "Python source runs as a local command does, off unless a rule names it, with the "
        "interpreter that is configured; it may be large, and has its own input and arguments."
    ),
}
