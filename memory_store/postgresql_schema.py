"""The schema of a server's database: made when empty, else moved only on command.

Other sidecars, of other versions, may be at work on it. So a start never changes a schema
that is there; an administrator does, in two phases around a rollout: `pre` steps, which the
older version can live with, and `post` steps, once none of it is left.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

from memory_store.advisory import Duty, take_turn
from memory_store.engine import translated
from memory_store.errors import SchemaMismatchError
from memory_store.schema import Migrated, Step, current_revision, run_steps, steps_from

_OFFERS_VECTORS = text("""
SELECT EXISTS (
    SELECT FROM pg_available_extensions WHERE name = 'vector' AND installed_version IS NULL
)
""")


def prepare(engine: Engine) -> None:
    """Make the tables of an empty database; leave any other as it is.

    Raises:
        SchemaMismatchError: it is older and has to be migrated, newer, or another program's.
    """
    with _locked(engine) as connection:
        current = current_revision(connection)
        steps = steps_from(current, place=_name_of(engine))
        if current is None:
            run_steps(connection, steps)
            _add_vectors(connection)
        elif not Migrated(before=current, ran=(), pending=steps).can_start:
            message = (
                f"the database {_name_of(engine)} is at revision {current}, older than this "
                f"version's {steps[-1].revision}; run `flyball migrate` and start again"
            )
            raise SchemaMismatchError(message)


def migrate(engine: Engine, *, with_post: bool) -> Migrated:
    """Run the steps before a rollout, or with those after it; one migration at a time.

    Raises:
        SchemaMismatchError: a newer or another program made it.
    """
    with _locked(engine) as connection:
        current = current_revision(connection)
        steps = steps_from(current, place=_name_of(engine))
        # An empty database has no older version at work on it.
        due = steps if with_post or current is None else _before_first_post(steps)
        run_steps(connection, due)
        _add_vectors(connection)
    return Migrated(before=current, ran=due, pending=steps[len(due) :])


def make_at(connection: Connection, revision: str) -> None:
    """Make the tables of an empty database as they were at `revision`.

    Raises:
        SchemaMismatchError: this version does not know it.
    """
    left = len(steps_from(revision, place="that was backed up"))
    steps = steps_from(None, place="")
    run_steps(connection, steps[: len(steps) - left])
    _add_vectors(connection)


def pending(engine: Engine) -> Migrated:
    """Return what is still to be run.

    Raises:
        SchemaMismatchError: a newer or another program made it.
    """
    with translated(), engine.begin() as connection:
        current = current_revision(connection)
    return Migrated(before=current, ran=(), pending=steps_from(current, place=_name_of(engine)))


def _add_vectors(connection: Connection) -> None:
    """Have pgvector in the database if the server offers it and this role may; else do without."""
    if connection.execute(_OFFERS_VECTORS).scalar_one():
        with suppress(DBAPIError), connection.begin_nested():
            connection.execute(text("CREATE EXTENSION IF NOT EXISTS vector"))


def _before_first_post(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    posts = [index for index, step in enumerate(steps) if step.is_post]
    return steps[: posts[0]] if posts else steps


@contextmanager
def _locked(engine: Engine) -> Iterator[Connection]:
    """Yield a transaction in which nobody else makes or moves the schema."""
    with translated(), engine.begin() as connection:
        # A step may take long; waiting for a lock that calls hold, it may not: they would
        # all wait behind it.
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        take_turn(connection, Duty.SCHEMA)
        yield connection


def _name_of(engine: Engine) -> str:
    return engine.url.render_as_string(hide_password=True)
