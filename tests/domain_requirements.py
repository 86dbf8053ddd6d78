"""What Flyball must do about the groups that local commands run in.

A part of `requirements.py`, which holds all of them together.
"""

DOMAINS: dict[str, str] = {
    "domain.shared-limits": (
        "All calls of a session, and all of a tenant, have one limit together, in groups that are "
        "made for the first call and removed after the last."
    ),
    "domain.figures-or-reasons": (
        "Every figure that the table of capabilities lists is known of every call; every other is "
        "unknown, with the reason."
    ),
    "domain.truthful-cause": (
        "What ended a command is what the kernel counted at the command's own limit, its "
        "session's, its tenant's and the machine's, else unknown; never a guess from an exit code."
    ),
    "domain.none-leaked": (
        "No group is left after a call, also where somebody else removed it, its session's, or "
        "where its sidecar died."
    ),
}
