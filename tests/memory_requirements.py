"""What experience memory must do.

A part of `requirements.py`, which holds all of them together.
"""

MEMORY: dict[str, str] = {
    "memory.tiers": (
        "Each stage of a search, filter, retrieve, expand, rerank and summarise, can be done at a "
        "low, a middle and a high tier, each at its price."
    ),
    "memory.tier-forced": "Who names a memory tier gets it, if what is left is enough for it.",
    "memory.tier-degrades": (
        "A budget of tokens, time or money that is short makes a search cheaper and never refuses "
        "it."
    ),
    "memory.tiers-safe-default": "Until something learned is in force, a search is as usual.",
    "memory.tiers-learn": (
        "Which searches are worth more work is learned from what is said of their answers."
    ),
    "memory.tiers-logged": "Each choice of a plan is logged with how probable every plan was.",
    "memory.duplicates-named": (
        "What a search leaves out, as the same or for want of room, is named and never dropped."
    ),
    "memory.sharing-learned": (
        "What enters the bank of a team is learned from use: whether others read it and "
        "succeeded, were misled, or did the same work again."
    ),
    "memory.sharing-links": "What a bank has already is linked to what is there, never dropped.",
    "memory.sharing-deterministic": (
        "The same offer to the same state of a bank is decided alike."
    ),
    "memory.sharing-explores": (
        "A share of the admissions is tried out, each with its chance in the log."
    ),
}
