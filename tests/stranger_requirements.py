"""Required behaviours towards strangers: what they send, and what must not come of it."""

INPUT: dict[str, str] = {
    "price.list-checked": (
        "A price list with a negative, huge or broken price, an unknown field or the same "
        "entry twice is refused with the field, and changes nothing."
    ),
    "input.malformed-json": "Malformed JSON is answered with a parse error.",
    "input.unknown-tool": "An unknown tool is refused by name, and nothing is reserved.",
    "input.wrong-types": (
        "Arguments of the wrong type are refused: where, what was expected, what came."
    ),
    "input.context-is-checked": "Session, turn and key are short printable strings.",
    "input.hostile-schema": "An upstream's malformed schema harms neither house nor neighbour.",
    "input.budget-matches-nothing": (
        "A budget for a tool, an upstream or a tier that is not configured is refused."
    ),
    "input.json-corpus": (
        "Whatever bytes are posted, as a message or inside one, the answer is a JSON-RPC error "
        "or a problem document, the same on every way, and nothing is left held."
    ),
    "input.broken-requests": (
        "A request that breaks off, contradicts itself or is coded is refused, runs nothing "
        "and leaves nothing held; what upstreams compress is not inflated."
    ),
    "input.slow-clients": (
        "Clients that say nothing, trickle or do not read are given up in bounded time, give "
        "way first where there is no room, and slow nobody else down by more than half."
    ),
    "input.pipelined-requests": (
        "Of the requests that a connection sends before their answers a few are read, and "
        "neither they nor a client's delay put anything into an answer that is under way."
    ),
    "input.front-door-fuzz": (
        "Whatever is changed in a valid request, it is answered in the words of JSON-RPC or "
        "HTTP, never with a fault of ours, and no hold is left."
    ),
    "input.duplicate-ids": (
        "Of two requests under way with one id in a session the second is refused."
    ),
    "input.endless-headers": "Headers without an end are given up.",
    "input.oversize-body-413": "A body above the limit is answered 413.",
    "input.unknown-principal-401": "An unknown token is answered 401.",
    "input.unknown-budget-404": "An unknown budget is answered 404.",
    "input.upstream-cannot-start": "An upstream that cannot start is said so, with its words.",
    "input.upstream-dies": "An upstream that dies mid-call fails that call, which is settled.",
    "input.upstream-never-answers": "An upstream that never answers is given up in time.",
    "drain.answers-are-read": "During a stop agents are listened to until their calls have ended.",
    "drain.no-child-left": "SIGTERM ends the calls, settles them and leaves no child behind.",
    "crash.restart-reaps": "After SIGKILL a restart ends strays and expires old holds.",
}
SAFETY: dict[str, str] = {
    "flow.labels-are-inferred": (
        "Without a word from the operator a tool's labels follow from what it says of itself; "
        "one of which nothing can be told acts and is not trusted."
    ),
    "flow.only-what-was-asked": (
        "After untrusted content nothing acts that the user's own words did not ask for."
    ),
    "flow.no-words-never-allow": "With no trusted words of the user a rule never allows.",
    "flow.task-tools": "A task class that has a list of tools has no others.",
    "flow.seen-survives": "What a session has seen outlives a restart, or nothing is shown.",
    "cache.costs-nothing": (
        "The same call of a tool that only reads is answered as before within its time, runs "
        "nothing, is charged nothing and says so."
    ),
    "cache.scope": "What one agent was answered never answers another, of any tenant.",
    "cache.changes-void": "Whatever an agent changes at an upstream voids what it read there.",
    "gate.think-first": (
        "A rule's gate lets nobody through who is not known, or calls too often, before a "
        "puzzle was solved."
    ),
    "gate.single-use": (
        "A challenge takes one answer, of the agent that it was made for, before it runs out; "
        "none from before a restart."
    ),
    "pin.change-is-quarantined": (
        "What an upstream offers is exposed only as it was approved: a changed, renamed or new "
        "tool is kept out until an administrator has seen and approved it."
    ),
    "pin.quarantined-call-is-told": (
        "A call of a tool that is kept out is a denial that names who can approve it, and the "
        "number of such tools stands beside each upstream."
    ),
    "access.keeps-from-whom-it-says": (
        "What an access rule keeps from a caller is not shown, found or run for it, and no "
        "other rule gives it back."
    ),
    "access.read-only": (
        "Where nothing may be changed, only what an approved definition, or the operator, "
        "says to only read is shown and run."
    ),
    "content.sizes-are-bounded": (
        "Arguments and results above their bounds are refused with both sizes; for arguments "
        "nothing is held."
    ),
    "content.promises-are-kept": (
        "A result is held against its tool's output schema on every way; one that breaks it "
        "is an error that says where, what was expected and what came, and is charged, unless "
        "the policy only reports it."
    ),
    "redaction.results": (
        "What the policy takes out of results never reaches a client, a record or the "
        "archive, in time linear in the text, and is counted."
    ),
    "pin.first-use-once": "An upstream is trusted at its first use once, over restarts too.",
    "pin.approve-what-was-seen": (
        "An approval is for the manifest that was read, and is in the audit log."
    ),
    "flow.words-are-trusted": (
        "The user's words are a launcher's or the first messages, once, before anything "
        "untrusted was seen; what tools answer never counts."
    ),
}
