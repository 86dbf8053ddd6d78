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

TELEMETRY: dict[str, str] = {}

CLIENTS: dict[str, str] = {}

DEPLOYMENT: dict[str, str] = {}

UPKEEP: dict[str, str] = {}

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
