"""Required behaviours of operating Flyball: console, commands, telemetry, clients, deployment."""

CONSOLE: dict[str, str] = {
    "overview.pace": "budgets say how fast they are used and when nothing is left at that pace",
    "overview.last-hour": "what ran, was denied and cost in the last hour is one answer",
    "console.sign-in": "who has an administrator's token signs in and out; nobody else does",
    "console.own-name": (
        "On this machine the console has a host name of its own: its cookie goes to no other port."
    ),
    "console.cookie": "the console's cookie is HttpOnly, SameSite=Strict and holds no token",
    "console.throttled": "tries to sign in are limited for each address and for all together",
    "console.revoked": "a token that is revoked or expires ends its visits at the next request",
    "console.replicas": "a visit is known to every sidecar of a database and ended at all of them "
    "at once; only hashes are stored, and who looks at pages causes next to no writes",
    "console.csrf": "a form of another origin, or without its token, changes nothing",
    "console.policy": "no answer of the console lets a browser load or run what is not its own",
    "console.escaped": "what strangers name things is shown as text",
    "console.by-whom": "what is done in the console is done by who signed in",
    "console.units": "amounts are told in the units people read, the exact integer beside them",
    "console.accessible": "no page has a barrier that axe finds, in either scheme, or overflows",
    "console.overview": "the overview renews itself while calls are made",
    "console.approvals": "what waits for a person is answered in the inbox, with a reason",
    "console.upstreams": "a changed manifest is shown as a difference, and approved as it was seen",
    "console.stale": "a page that cannot renew itself says since when it is old",
    "console.tenant": "of several tenants one is chosen, and its things alone are shown",
    "memory-page.provenance": "what is kept in the memory is found by its words and read with its "
    "trust, where it comes from and what was made of it; it is shown as text",
    "memory-page.deeds": "experiences are quarantined, promoted, revoked and erased in a browser, "
    "after a question, with why",
    "memory-page.off": "a memory that is switched off says how it is offered again",
    "console.keyboard": "every page can be used by keyboard alone, from its skip link on",
}

SESSION_PAGES: dict[str, str] = {
    "curves.from-the-domain": "A local command's memory and processor time over time are sampled "
    "from its own domain, on every kind of domain",
    "curves.bounded": "A curve has 120 points at the most, however long a command runs, and "
    "thinning hides no peak; stored, it is less than a kilobyte",
    "curves.kept": "A curve is stored with its call and read by itself",
    "curves.workers": "Commands that different workers run have curves like any other",
    "timeline.archive": "What was archived of a call is read by whoever reads the call",
    "timeline.live": "A running sidecar tells a session's model calls, commands and turns",
    "session-pages.accessible": "The pages of sessions and budgets have no barriers, light, dark "
    "and on a phone",
    "session-pages.timeline": "A session is found, read with the curves of its commands and what "
    "was archived, frozen, resumed and ended in a browser",
    "session-pages.budgets": "A budget is previewed, made, changed and retired in a browser, and a "
    "form that cannot be read says how it is written",
    "timeline.order": "A session's timeline tells calls, denials, questions to people and changes "
    "in the order of time, the same page by page",
    "timeline.why": "A model call in the timeline says its tier, why, effort and mode, and what "
    "the router expected of each tier",
    "preview.route": "A budget, new or changed, is previewed over the last days and not stored",
    "preview.bounded": "A preview looks at so many calls for so long, says when it is a part, and "
    "runs one at a time",
    "preview.whole": "A preview of every call, however many, says how far it is in a page of the "
    "console, and ends when nobody waits for it",
    "preview.as-the-ledger": "A preview of a budget denies the calls of the past that a ledger "
    "with that budget would have denied, for every kind of window, scope, match and overdraft",
    "preview.honest": "A preview says of which calls it cannot know: those denied then, without "
    "an estimate, not measured, and what no record tells any more",
}

ROUTER_PAGES: dict[str, str] = {
    "router-page.empty": "Before anything is rated the router's page says what to do",
    "router-page.story": "Tiers with prices, quality and cost, a model promoted and rolled back, "
    "and what it expects beside what comes, in a browser over a real log",
    "router-page.refused": "A promotion that is refused says why on the page",
    "router-page.providers": "Providers show breakers and keys by name, without barriers",
    "router.calibration": "What models expected is held against what came, in bins with intervals",
}

COMMANDS: dict[str, str] = {
    "doctor.every-fault": "doctor tells every fault that it can find, each with what to do next",
    "stop.bounded": "a sidecar that is told to stop ends in bounded time, whatever a plug-in does",
    "commands.start-light": "what only asks loads nothing that serves",
    "commands.what-next": "an error of the command line says what to do next",
    "commands.json": "every command answers in JSON, errors too",
    "commands.tables": "tables fit the terminal and lose nothing; a pipe gets plain lines",
    "commands.top": "top fits the terminal, outlives a silent sidecar, is one snapshot piped",
    "commands.session": "a session is told at a terminal, and frozen, resumed and ended there",
    "commands.preview": "a changed budget is tried on past calls at a terminal",
    "commands.bench": "bench times what ran alone and compares its calls with the books",
    "commands.completion": "shells complete commands, options and values",
    "commands.focus": "costs are exported as FOCUS 1.2 demands, and add up to what was charged",
    "commands.export": "calls are exported in pages: whole, or not at all in a file",
    "commands.strangers": "what a stranger wrote does not steer the terminal that shows it",
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
    "logs.no-secrets": "no line of the log shows a secret, detected or given",
    "logs.structured": "each record is one line, as JSON with its trace where asked for",
    "notice.by-kind": "each webhook is sent the kinds it wants, at its own pace",
    "notice.denials-added-up": "denials are told at once, then as one figure, in bounded many",
    "notice.approvals": "that a person is asked, and what came of it, is told",
    "metrics.bounded": "no name that a client chooses makes a series of a metric",
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
    "plugins.guards": (
        "A guard of a plug-in sees each governed call before it runs and what came of it; it lets "
        "it run, denies it, or has a person asked, with a reason."
    ),
    "plugins.estimators": (
        "What an estimator of a plug-in expects of a call is held while it runs, within the limits "
        "of its rule; nonsense changes nothing."
    ),
    "plugins.upstream-kinds": (
        "An upstream can be of a kind that a plug-in brings: listed, pinned, governed and "
        "reconnected as any other."
    ),
    "plugins.notifiers": (
        "A notifier of a plug-in is brought every notice, at least once and in order, at its own "
        "pace."
    ),
    "plugins.contained": (
        "Nothing of a plug-in is loaded unless it is named; one that raises, hangs, answers "
        "nonsense or does not load is told, counted and ends nothing but its own part: a guard "
        "then denies unless the operator says otherwise, all else goes on without it."
    ),
}

DEPLOYMENT: dict[str, str] = {
    "release.signed": "a release is refused if anything in it is not what its maker signed",
    "release.bill": "a release lists all that it brings, by name, version and hash",
    "dependencies.audited": "what is locked is audited, or it is said that nobody could be asked",
    "secrets.unheard": "no secret is in a log, error, answer, notice, metric or stored file",
    "input.database-encoding": "a database that cannot hold every text is refused at the start",
    "secrets.by-file": "every secret can be handed over in a file, whatever names it",
    "deploy.entrypoint": "what is deployed starts with nothing but what its deployment gives it",
    "deploy.compose-valid": "the compose files are what the Compose Specification allows",
    "deploy.kubernetes-valid": "the manifests resolve and are what Kubernetes' schemas allow",
    "deploy.systemd-valid": "systemd finds nothing wrong with the unit",
    "deploy.pinned": "images and packages are named by version, ours by hash",
    "deploy.loopback": "what compose publishes is reached from the host alone",
    "deploy.least-privilege": "no root, no capability that is not named, no way to get one",
    "deploy.admin-apart": "who reaches the agents' listener does not reach the other",
    "deploy.health": "orchestrators ask /readyz by a name that is served",
    "deploy.secrets-by-file": "deployments hand secrets over in files alone",
}

UPKEEP: dict[str, str] = {
    "allotment.never-overspent": (
        "Replicas that spend from allotments overspend no window, whatever is lost, late, cut "
        "off, dead or at another time; protocols that are almost the same are found out."
    ),
    "allotment.waste-bounded": (
        "Where nothing goes wrong, nearly all of a limit can be spent through allotments."
    ),
    "upgrade.from-every-release": (
        "A store that an earlier release wrote goes on: balances, tokens, keys, running calls."
    ),
    "upgrade.can-be-undone": (
        "An earlier release refuses the newer schema, and works on the copy made before it."
    ),
    "upgrade.rolls": (
        "An earlier release works on while the schema is moved and this one joins; no call fails "
        "and each is counted once."
    ),
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
    **ROUTER_PAGES,
    **COMMANDS,
    **TELEMETRY,
    **CLIENTS,
    **DEPLOYMENT,
    **UPKEEP,
    **DOCS,
}
