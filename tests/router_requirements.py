"""What a learned router must do.

A part of `requirements.py`, which holds all of them together.
"""

LEARNED: dict[str, str] = {
    "router.forecasts": (
        "What each tier would make of a prompt is foretold in quality and cost, also for texts "
        "that were never seen."
    ),
    "router.calibrated": (
        "What is forecast of tiers comes true on average, and intervals hold the stated share of "
        "scores and costs."
    ),
    "router.file-is-checked": (
        "A router's file that is damaged, cut short or of a newer Flyball is refused with the "
        "reason, and never read in part."
    ),
    "eval.router": (
        "`flyball eval router` reports what routing recovers of the gap between tiers and what it "
        "scores within a budget, as the interfaces say."
    ),
    "eval.router-keeps-budgets": "A stream of prompts stays within its budget, and uses it.",
    "eval.router-does-no-harm": (
        "Where prompts tell nothing of the tiers, routing does not fall behind the best mixture."
    ),
    "eval.router-never-peeks": (
        "What is seen of a tier's run is used only after that run was paid for."
    ),
}
