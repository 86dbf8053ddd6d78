"""What `flyball doctor` finds of the store: where, whether it answers, its schema, its budgets."""

from collections.abc import Sequence

from governor.budget import Budget
from memory_store.errors import SchemaMismatchError, StoreError
from memory_store.glance import Found
from memory_store.glancing import glance_at_schema, glance_at_store, place_of_store
from memory_store.schema import Migrated
from runtime.configuration.model import Config
from runtime.configuration.store_url import store_url_of
from runtime.configuration.translate import budgets_of
from runtime.errors import ConfigError
from runtime.findings import Finding, bad, ok, warning
from runtime.settings import Settings
from runtime.standing_budgets import doubts_about, names_in
from runtime.token_files import TENANT


def store_findings(config: Config, settings: Settings) -> list[Finding]:
    """Return how the store is, without a password, and the file's budgets in it."""
    try:
        url = store_url_of(config, settings.store_url)
        address = None if url is None else url.get_secret_value()
        place = place_of_store(settings.state, url=address)
    except (ConfigError, StoreError) as error:
        return [bad("store", str(error))]
    told = f"{place}, durability {config.store.durability}"
    schema = _schema(settings, address)
    if schema is not None and not schema.is_ok:
        return [bad("store", f"{told}: {schema.told}")]
    found = [ok("store", told), *([] if schema is None else [schema])]
    budgets = budgets_of(config, tenant=TENANT)
    try:
        known = glance_at_store(settings.state, names_in(budgets), url=address)
    except StoreError:
        told = "whether the file's budgets are those in force could not be read from the store"
        return [*found, warning("budgets", told)]
    return [*found, *budget_findings(budgets, known)]


def budget_findings(budgets: Sequence[Budget], found: Found | None) -> list[Finding]:
    """Return each budget of the file that binds nobody, or is not the one in force."""
    return [warning(f"budget {doubt.budget}", doubt.told) for doubt in doubts_about(budgets, found)]


def _schema(settings: Settings, address: str | None) -> Finding | None:
    """Return whether this version can work on what the store holds; None where there is none."""
    try:
        schema = glance_at_schema(settings.state, url=address)
    except SchemaMismatchError as error:
        return bad("schema", str(error))
    except StoreError as error:
        remedy = (
            "restore a backup (`flyball restore`), or name another directory with --state"
            if address is None
            else "start the server, or mend the URL of the store; without it every call is denied"
        )
        return bad("schema", f"it cannot be read ({_cause_of(error)}); {remedy}")
    return None if schema is None else _told_of(schema, is_server=address is not None)


def _told_of(schema: Migrated, *, is_server: bool) -> Finding:
    if not schema.pending:
        return ok("schema", f"up to date ({schema.before})")
    steps = ", ".join(step.revision for step in schema.pending)
    if not is_server:
        now = schema.before or "empty"
        return ok("schema", f"{now}; the next start brings {steps}, after a backup")
    if schema.can_start:
        told = f"{steps} wait for the end of the rollout; then run `flyball migrate --post`"
        return warning("schema", told)
    return bad("schema", f"{steps} are to be run before a start; run `flyball migrate`")


def _cause_of(error: StoreError) -> str:
    """Return what the database, or its driver, said first."""
    cause = getattr(error.__cause__, "orig", None) or error.__cause__ or error
    return str(cause).strip().partition("\n")[0] or type(cause).__name__
