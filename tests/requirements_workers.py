"""What several processes or sidecars owe together, and what many sessions may cost one."""

WORKERS: dict[str, str] = {
    "workers.one-ledger": (
        "Of 4K calls that race through several workers on a budget of K, exactly K run."
    ),
    "workers.deny-without-ledger": (
        "While the process of the ledger is away every call is denied (ledger_unavailable); "
        "when it is back, calls run again."
    ),
    "workers.restart": (
        "A worker that is killed takes only its own calls with it: others serve meanwhile, "
        "and it is started again."
    ),
    "workers.no-orphans": "No process of a sidecar outlives its parent, however that ends.",
    "workers.sessions-find-home": (
        "Whatever a worker keeps for a client (a session, an event stream, a question) is "
        "reached through every other worker."
    ),
    "workers.single-use": "What counts once counts once over all workers.",
    "sessions.memory-is-bounded": (
        "What is remembered of sessions is bounded in number, however many there are."
    ),
    "workers.changes-arrive": (
        "What an administrator changes is in force at every worker within seconds."
    ),
}

SHARED: dict[str, str] = {
    "shared.one-budget": (
        "However many sidecars share a database, a budget is one budget to all of them, and a "
        "change of it governs the next admission of each."
    ),
    "shared.holds-of-others": (
        "No sidecar ends a hold of another before its time, and none is ended twice."
    ),
    "shared.acknowledged-on-disk": (
        "What a sidecar was told is stored survives the crash of the shared database's server."
    ),
    "shared.session-closed": "A session closed through one sidecar is denied by all at once.",
    "shared.token-revoked": (
        "A token revoked through one sidecar is refused by all within a second."
    ),
    "shared.one-change-at-a-time": "Of two changes to one version of a record, one is refused.",
    "shared.housekeeping-once": (
        "Every sidecar keeps house, and nothing is closed or removed twice."
    ),
    "shared.reconnects": (
        "A lost connection fails what was under way, and the next call makes it anew."
    ),
    "store.migrated-with-rows": (
        "A database of an older schema is migrated with the rows in it: budgets, balances, "
        "live holds and sessions stand and go on, on SQLite and PostgreSQL."
    ),
    "shared.migrated-on-command": (
        "A start makes the tables of an empty shared database and changes none that is there; "
        "`flyball migrate` does, in one phase before a rollout and one after."
    ),
    "shared.password-unseen": "A store's password is in no file, error or log of Flyball.",
}
