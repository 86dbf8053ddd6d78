"""What the ladder, declarations and learned estimates must do."""

LADDER: dict[str, str] = {
    "ladder.stall-is-noticed": (
        "A command that memory.high holds in a livelock is noticed within five seconds and climbs "
        "to the next rung."
    ),
    "ladder.raise-goes-on": (
        "A command that is out of memory is frozen, with its clock, while somebody is asked, and "
        "goes on with what it is given, never with more than its ceiling."
    ),
    "ladder.never-over-the-hard-limit": (
        "On every rung the kernel's hard limit stands: a command never holds more than it was "
        "granted."
    ),
    "ladder.budget-bounds-a-raise": (
        "A raise holds what it may cost more before anybody is asked; a budget without room "
        "refuses it."
    ),
    "ladder.administrators-freeze-stands": ("The ladder never thaws what an administrator froze."),
    "estimates.learned-survive": (
        "What is learned of calls survives restarts, is added up between sidecars, and is bounded."
    ),
    "estimates.cold-start-is-said": (
        "As long as too few calls like it were seen, a call holds its rule's limits and is told so."
    ),
    "intent.never-above-the-ceiling": (
        "A declaration is granted within its rule's ceiling, and the answer says what was granted; "
        "one that cannot be read is refused with the reason, and nothing runs."
    ),
}
