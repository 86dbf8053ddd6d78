"""Required behaviours of operating Flyball: console, commands, telemetry, clients, deployment."""

CONSOLE: dict[str, str] = {}

SESSION_PAGES: dict[str, str] = {}

COMMANDS: dict[str, str] = {
    "commands.start-light": "what only asks loads nothing that serves",
    "commands.what-next": "an error of the command line says what to do next",
    "commands.json": "every command answers in JSON, errors too",
}

TELEMETRY: dict[str, str] = {}

CLIENTS: dict[str, str] = {
    "clients.python": (
        "The typed client says all about an agent's sessions, budgets, outcomes and memory, and "
        "an administrator's budgets, sessions, calls and approvals, with and without a loop."
    ),
    "clients.recipes": (
        "The recipes for OpenAI's Agents SDK, LangGraph, pydantic-ai and plain MCP in Python and "
        "TypeScript work as they stand, and all they do is of one governed session."
    ),
    "clients.known-agents": (
        "An agent that `flyball run` starts finds the sidecar's models and tools in its "
        "environment, in a file that is its alone, and as its program is told of MCP servers."
    ),
}

DEPLOYMENT: dict[str, str] = {}

UPKEEP: dict[str, str] = {
    "backup.whole-and-online": (
        "A backup of a store at work is one moment of it, with each file and key; what was "
        "acknowledged before it began is in it."
    ),
    "backup.proved-before-used": "A backup that is not what was written changes nothing.",
    "backup.survives-kills": (
        "Killed at any step, a backup leaves no half of one, and a restore the store of before or "
        "of the backup, whole; a start or another restore ends it."
    ),
}

DOCS: dict[str, str] = {
    "docs.snippets-are-tagged": "every snippet says whether a test executes or reads it",
    "docs.snippets-parse": "a snippet tagged parse is read by what would read it",
    "docs.snippets-run": "a snippet tagged run does what it shows, against a real sidecar",
    "docs.reference-is-current": "the reference is what the code says, and leaves nothing out",
    "docs.site-builds": "the site builds without a warning; its links and anchors lead somewhere",
    "docs.site-is-offline": "a reader's browser asks nobody but the site itself",
    "docs.papers-are-true": "a paper's page names modules and tests that there are",
    "docs.front-page": "the README is a front page, and leads to the rest",
}

OPERATE: dict[str, str] = {
    **CONSOLE,
    **SESSION_PAGES,
    **COMMANDS,
    **TELEMETRY,
    **CLIENTS,
    **DEPLOYMENT,
    **UPKEEP,
    **DOCS,
}
