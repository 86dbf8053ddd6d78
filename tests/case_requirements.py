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
    "guidance.by-record": (
        "How closely an agent is guided follows from the record of its class of tasks."
    ),
}
