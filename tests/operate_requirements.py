"""Required behaviours of operating Flyball: console, commands, telemetry, clients, deployment."""

CONSOLE: dict[str, str] = {
    "overview.pace": "budgets say how fast they are used and when nothing is left at that pace",
    "overview.last-hour": "what ran, was denied and cost in the last hour is one answer",
    "console.sign-in": "who has an administrator's token signs in and out; nobody else does",
    "console.accessible": "no page has a barrier that axe finds, in either scheme, or overflows",
    "console.keyboard": "every page can be used by keyboard alone, from its skip link on",
}

SESSION_PAGES: dict[str, str] = {}

COMMANDS: dict[str, str] = {
    "commands.start-light": "what only asks loads nothing that serves",
    "commands.what-next": "an error of the command line says what to do next",
    "commands.json": "every command answers in JSON, errors too",
}

TELEMETRY: dict[str, str] = {
    "trace.client-to-upstream": "a client's trace goes on to upstreams, by header and by _meta",
    "trace.client-to-model": "a client's trace goes on to model providers",
    "trace.denials": "a denial is told on the span of its request",
    "trace.no-content": "no argument, result or secret is sent to a collector",
    "trace.fails-open": "a collector that fails costs no call and is counted",
    "metrics.by-otlp": "all metrics go to a collector that is named, with exemplars",
    "monitoring.metrics-exist": "alerts and dashboard ask for metrics and labels that there are",
    "monitoring.alerts-tested": "each alert is tested by promtool and says what to do",
    "metrics.exemplars": "what Prometheus reads shows traces beside durations",
}

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
    "admin.answers-as-described": (
        "Whatever is sent to the admin API, allowed by its description or not, is answered with a "
        "status, a media type and a shape that the description names, and never with 500."
    ),
    "backup.proved-before-used": "A backup that is not what was written changes nothing.",
    "backup.survives-kills": (
        "Killed at any step, a backup leaves no half of one, and a restore the store of before or "
        "of the backup, whole; a start or another restore ends it."
    ),
}

DOCS: dict[str, str] = {}

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
