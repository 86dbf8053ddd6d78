"""What Flyball must do as a relay of the whole protocol, for `requirements.py`."""

ALL_OF_MCP: dict[str, str] = {
    "protocol.any-era-with-any-era": (
        "A client of any era uses a server of any era: tools, resources, prompts, completion, "
        "progress, logs, cancellation, errors, and what a server asks in between."
    ),
    "protocol.is-conformant": (
        "The official suite's scenarios pass through the gateway, in both eras, and at its leg "
        "to the upstream."
    ),
    "protocol.questions-reach-who-caused-them": (
        "What an upstream asks goes to the client whose request caused it, or is refused."
    ),
    "protocol.parked-calls-are-bounded": (
        "A call that waits without its client is bounded in number, time and bytes, resumed "
        "only by its agent and settled once."
    ),
    "protocol.upstreams-are-merged": (
        "What several upstreams offer is one list; a shared URI is the first one's and told; "
        "what a rule forbids is neither listed nor given."
    ),
    "protocol.offers-are-governed": (
        "A resource that is read and a prompt that is got are calls: rules, budgets, freezes "
        "and records cover them."
    ),
    "protocol.sole-upstream-is-shown-as-it-is": (
        "Without a prefix a sole upstream's names, capabilities and instructions are shown."
    ),
    "protocol.answers-are-kept-as-they-allow": (
        "A list or resource is given again only for its ttlMs, and to others only if public."
    ),
    "protocol.tasks-are-relayed": "A task is asked about at the upstream that runs it.",
    "protocol.tasks-are-their-agents": (
        "A task is known to the agent that began it alone; asking about it is a governed call."
    ),
    "command.stdio-serves-one-client": (
        "`flyball stdio` serves the program that started it, and ends with it."
    ),
    "command.import-takes-what-it-can": (
        "`flyball import` takes servers from an mcpServers file and says what it could not."
    ),
    "protocol.changes-are-told": "Clients hear what changed, once it can be seen.",
    "protocol.unknown-members-are-kept": (
        "Members of results that the protocol does not know pass unchanged."
    ),
}
