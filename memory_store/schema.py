"""The schema's versions: which there are, which a database has, how it gets to another."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, inspect

from memory_store.errors import SchemaMismatchError

_PACKAGE = Path(__file__).parent
# An installed wheel has the first, a checkout the second.
_PLACES = (_PACKAGE / "_migrations", _PACKAGE.parent / "migrations")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One migration; a `post` one may only run when no older version is left running."""

    revision: str
    is_post: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrated:
    """What became of a database: where it was, what ran, what is still to be run."""

    before: str | None
    ran: tuple[Step, ...]
    pending: tuple[Step, ...]

    @property
    def can_start(self) -> bool:
        """Tell whether this version of Flyball can work on it."""
        return all(step.is_post for step in self.pending)


def migrations_folder(places: tuple[Path, ...] = _PLACES) -> Path:
    """Return the folder with the migrations."""
    for place in places:
        if (place / "env.py").is_file():
            return place
    message = f"no migrations in {' or '.join(str(place) for place in places)}; reinstall Flyball"
    raise SchemaMismatchError(message)


def current_revision(connection: Connection) -> str | None:
    """Return the revision of the database, None if it is empty.

    Raises:
        SchemaMismatchError: it is another program's.
    """
    heads = MigrationContext.configure(connection).get_current_heads()
    if not heads and inspect(connection).get_table_names():
        message = (
            "the database has tables but no revision, so it is not Flyball's; "
            "choose another state directory or database"
        )
        raise SchemaMismatchError(message)
    return heads[0] if heads else None


def steps_from(current: str | None, *, place: str) -> tuple[Step, ...]:
    """Return what leads from revision `current` to the present one, in its order.

    Raises:
        SchemaMismatchError: this version does not know the revision; `place` says whose it is.
    """
    scripts = ScriptDirectory.from_config(_config())
    head = scripts.get_current_head()
    assert head is not None, "no migrations are packaged"
    if current is not None:
        _check_known(scripts, current, place)
    way = [_step(script) for script in scripts.iterate_revisions(head, current or "base")]
    return tuple(reversed(way))


def run_steps(connection: Connection, steps: Sequence[Step]) -> None:
    """Run `steps` in the transaction that is open."""
    if steps:
        command.upgrade(_config(connection), steps[-1].revision)


def _step(script: Script) -> Step:
    is_post = Path(script.path).name.startswith(f"{script.revision}_post_")
    return Step(revision=script.revision, is_post=is_post)


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    # Alembic's options are interpolated: a percent sign in a path must be doubled.
    config.set_main_option("script_location", str(migrations_folder()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    if connection is not None:
        config.attributes["connection"] = connection
    return config


def _check_known(scripts: ScriptDirectory, revision: str, place: str) -> None:
    try:
        scripts.get_revision(revision)
    except CommandError as error:
        message = (
            f"the database {place} is at revision {revision}, which this version of Flyball "
            f"does not know (it knows up to {scripts.get_current_head()}); start the version "
            "that wrote it, or restore the backup made before that version's upgrade"
        )
        raise SchemaMismatchError(message) from error
