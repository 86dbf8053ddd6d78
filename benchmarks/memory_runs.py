"""Made-up runs of agents with tools, and questions about them, for `train_memory_ranker.py`.

Each session is a task: a user asks, an agent says what it does, tools answer in JSON or in lines
of a log, and the agent tells what came of it. Questions ask for what only a tool's answer says.
"""

import json
import random
from collections.abc import Iterator

from runtime.evaluate.memory.conversations import Conversation, Question, Turn, tokens_of

TASKS = {
    "order": ("orders_find", ("status", "total", "carrier", "paid_with"), "an order in the shop"),
    "flight": ("flights_search", ("price", "departs", "airline", "seats_left"), "a flight"),
    "build": ("ci_logs", ("result", "failed_test", "duration", "branch"), "a broken build"),
    "invoice": ("billing_lookup", ("amount", "due", "customer", "currency"), "an invoice"),
    "host": ("metrics_query", ("cpu", "memory", "uptime", "region"), "a slow server"),
    "parcel": ("parcel_track", ("location", "weight", "eta", "depot"), "a lost parcel"),
}
VALUES = {
    "status": ("delivered", "pending", "cancelled", "in transit"),
    "carrier": ("Northpost", "Swiftline", "Bluevan"),
    "paid_with": ("voucher", "credit card", "bank transfer"),
    "departs": ("06:40", "13:15", "21:55"),
    "airline": ("Aurora Air", "Polar Wings", "Sol Express"),
    "result": ("passed", "failed", "timed out"),
    "failed_test": ("test_login_twice", "test_refund_rounding", "test_empty_cart"),
    "branch": ("main", "hotfix-tax", "feature-search"),
    "due": ("2031-03-01", "2031-04-15", "2031-05-30"),
    "customer": ("Harbour Foods", "Mill & Sons", "Lund Optics"),
    "currency": ("EUR", "CHF", "NOK"),
    "region": ("eu-north", "us-east", "ap-south"),
    "location": ("sorting hall 4", "border control", "van 17"),
    "depot": ("Kelso", "Turku", "Brno"),
}
OFTEN, SELDOM = 0.5, 0.3
ASKED = (
    "What was the {field} of {kind} {name}?",
    "Which {field} did {tool} report for {name}?",
    "What did we find out about the {field} of the {kind} {name}?",
    "When we looked at {about}, what was the {field}?",
)


def runs(total: int, *, seed: int) -> Iterator[Conversation]:
    """Yield what agents did in some sessions, with questions; the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - made-up runs are no secret
    for number in range(total):
        turns: list[Turn] = []
        questions: list[Question] = []
        for session in range(chance.randint(8, 20)):
            _task(chance, str(session), turns, questions)
        yield Conversation(
            name=f"made-up run {number}", turns=tuple(turns), questions=tuple(questions)
        )


def _task(
    chance: random.Random, session: str, turns: list[Turn], questions: list[Question]
) -> None:
    kind = chance.choice(sorted(TASKS))
    tool, fields, about = TASKS[kind]

    def say(actor: str, text: str) -> str:
        turn = Turn(
            turn_id=f"R{len(turns)}",
            speaker=actor,
            session=session,
            text=text,
            tokens=tokens_of(f"{actor}: {text}"),
        )
        turns.append(turn)
        return turn.turn_id

    names = [f"{kind[0].upper()}{chance.randint(1000, 9999)}" for _ in range(chance.randint(1, 3))]
    say("user", f"Please look into {about}: {', '.join(names)}. Tell me what is wrong with it.")
    for name in names:
        say("agent", f"I will call {tool} for {kind} {name}.")
        found = {field: _value(chance, field) for field in fields}
        answer = say(tool, _answer(chance, kind, name, found))
        if chance.random() < SELDOM:
            say("agent", f"The {kind} {name} is there. Next I check the rest of it.")
        for field in chance.sample(fields, 2):
            text = chance.choice(ASKED).format(
                field=field.replace("_", " "), kind=kind, name=name, tool=tool, about=name
            )
            questions.append(Question(text=text, kind=4, evidence=frozenset({answer})))
    say("agent", f"Done with {', '.join(names)}: I wrote a note to the team and closed the task.")


def _value(chance: random.Random, field: str) -> object:
    return chance.choice(VALUES[field]) if field in VALUES else chance.randint(1, 9000) / 10


def _answer(chance: random.Random, kind: str, name: str, found: dict[str, object]) -> str:
    """Return a tool's answer, which does not always repeat what it was asked for."""
    named = {"id": name} if chance.random() < OFTEN else {}
    if chance.random() < OFTEN:
        return json.dumps({**named, **found})
    head = f"{kind} {name}\n" if named else ""
    return head + "\n".join(f"{field}: {value}" for field, value in found.items())
