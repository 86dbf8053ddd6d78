"""Required behaviours of operating Flyball: console, commands, telemetry, clients, deployment."""

CONSOLE: dict[str, str] = {}

SESSION_PAGES: dict[str, str] = {}

COMMANDS: dict[str, str] = {}

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
