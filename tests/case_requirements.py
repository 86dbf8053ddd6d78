"""What cases, playbooks, guidance and work in quiet hours must do.

A part of `requirements.py`, which holds all of them together.
"""

CASES: dict[str, str] = {
    "cases.by-value": (
        "Past cases are chosen by what reading them was worth, which is learned from the outcomes "
        "of their readers and foretold for those that nobody has read."
    ),
    "cases.both-signs": (
        "Cases are labelled as what went well or went wrong, and one of the other sign is told "
        "where that is cheap."
    ),
    "cases.propensity": "Each case is logged with the chance that it was chosen with.",
    "playbook.deltas-commute": (
        "A playbook is the sum of its deltas, in whichever order, in whichever parts and however "
        "often they come."
    ),
    "playbook.lanes": (
        "Of a playbook only what an operator said or promoted is handed on as an instruction."
    ),
    "playbook.bounded": (
        "A playbook is shown within so many tokens, the best first, and says what it leaves out."
    ),
    "playbook.links-never-drops": "Bullets that say nearly the same are linked, never dropped.",
    "playbook.rules": (
        "Without a model, bullets are made of errors of tools that several sessions met, and of "
        "what worked next."
    ),
    "playbook.model-answers-are-deltas": (
        "Of what a model answers that reflects, only deltas of known kinds are taken, in the lane "
        "of the worst that it was shown; all else is refused and counted."
    ),
    "playbook.versions": (
        "Each merge makes a version of a playbook; it goes back to any that is not too old, and "
        "what came later stays in its history."
    ),
    "lessons.forgotten-with-sources": (
        "What is erased takes along who read it, the bullets that only it stands for, and the "
        "answers that were made of it."
    ),
    "quiet.answers-beforehand": (
        "What is asked of the memory time and again is answered beforehand, in fewer tokens and "
        "with its sources."
    ),
    "quiet.answers-hold": (
        "An answer made beforehand is served only to the same question of the same lanes, as long "
        "as no source of it changed and nothing new speaks of the same things."
    ),
    "quiet.own-budget": (
        "What the house does for itself is admitted, charged and settled on a budget of its own, "
        "and stops at it."
    ),
    "quiet.one-at-a-time": "Of sidecars on one database one works in quiet hours at a time.",
    "quiet.only-while-idle": "The house works for itself only while nobody asks anything of it.",
    "quiet.lessons": (
        "Cases that repeat become one lesson, in the lane of the least trusted of them, and what "
        "says the same is linked."
    ),
    "quiet.accounted": "What work in quiet hours cost and what it saved later are both counted.",
    "guidance.by-record": (
        "How closely an agent is guided follows from the record of its class of tasks."
    ),
}
