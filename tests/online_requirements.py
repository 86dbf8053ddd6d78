"""What the router that learns must do.

A part of `requirements.py`, which holds all of them together.
"""

ROUTER: dict[str, str] = {
    "router.late-feedback": (
        "Feedback may come late, in parts and in any order; what is learned of it is the same."
    ),
    "router.off-policy": (
        "What other ways to choose would have earned is estimated from the log without bias, with "
        "intervals that hold."
    ),
    "router.explores-within-bounds": (
        "No more than its share of the calls is explored, nothing dearer when a purse is short, "
        "and nothing at all in sessions that are marked."
    ),
    "router.feedback-weighed": (
        "Several words on a call are weighed, a trusted one overrides, and an agent's own word "
        "counts less than those of tests and administrators."
    ),
    "router.poisoning-bounded": "What one agent's own word counts in a day is bounded.",
    "router.log-kept": (
        "Every choice is kept with what was expected of each tier and how probable it was, with "
        "how it ended and what it was worth; best effort, bounded, never in the way of an answer."
    ),
    "router.models-versioned": (
        "Models are versioned and checked; one is promoted only if it is better than what is in "
        "force, rolled back by one command, and in force everywhere without a restart."
    ),
    "router.safe-default": (
        "Without a model, with a damaged one or one from a newer Flyball the tier rules decide; "
        "it is told once and counted."
    ),
    "router.learns-live": (
        "A running sidecar learns from the outcomes that are reported to it which tier is right "
        "for which prompts, and when that is no longer so."
    ),
}
