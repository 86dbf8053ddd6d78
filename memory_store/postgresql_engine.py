"""Connections to a PostgreSQL server that several sidecars share."""

from collections.abc import Mapping
from typing import Any

import psycopg
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from memory_store.engine import READERS_MAX, Durability, name_unstorable_values
from memory_store.errors import StoreUnavailableError

_DRIVER = "postgresql+psycopg"
_SCHEMES = ("postgresql", "postgres", _DRIVER)

# A server that is gone is noticed within the half minute even if its machine lost power.
_CONNECTING = {
    "application_name": "flyball",
    "client_encoding": "utf8",
    "connect_timeout": "5",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "25000",
}
# Whoever waits for a lock gives up before its caller does; a sidecar that was stopped in the
# middle of a transaction (a debugger, a frozen machine) does not keep the others waiting.
_WRITING = {
    "statement_timeout": "30s",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "15s",
}
# A read sees one state of the database from its first statement to its last.
_READING = {
    "statement_timeout": "30s",
    "default_transaction_read_only": "on",
    "default_transaction_isolation": "repeatable read",
}
_SYNCHRONOUS_COMMIT = {Durability.POWER: "on", Durability.PROCESS: "off"}


def server_url(text: str) -> URL:
    """Return the address of a server; `str` of it leaves the password out.

    Raises:
        StoreUnavailableError: it is not one; the message does not repeat it.
    """
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        url = None
    if url is None or url.drivername not in _SCHEMES:
        message = (
            "the store's URL cannot be read; write postgresql://user:password@host:port/database"
        )
        # The cause would repeat the text, and with it the password.
        raise StoreUnavailableError(message) from None
    password = url.query.get("password")
    if isinstance(password, str):
        url = url.difference_update_query(["password"]).set(password=password)
    return url.set(drivername=_DRIVER)


def place_of(url: URL) -> str:
    """Return which database it is, in words, with nothing secret of the URL in them."""
    asked = url.query.get("host")
    host = url.host or (", ".join(asked) if isinstance(asked, tuple) else asked)
    where = f"at {host}{f':{url.port}' if url.port else ''}" if host else "on this machine"
    return f"the PostgreSQL database {url.database or url.username or 'of its user'} {where}"


def unreachable(url: URL, error: Exception) -> StoreUnavailableError:
    """Return the error that says which server could not be used at start, and why."""
    # What the driver says itself; around it SQLAlchemy tells of statements and their values.
    cause = error.__cause__ or error
    reason = str(getattr(cause, "orig", None) or cause).strip().partition("\n")[0]
    message = f"the store at {url.render_as_string(hide_password=True)} cannot be used: {reason}"
    return StoreUnavailableError(message.replace(url.password, "***") if url.password else message)


def check_encoding(connection: Connection) -> None:
    """Return if the database can hold every text.

    Raises:
        StoreUnavailableError: it cannot; the message says how to make one that can.
    """
    encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
    if encoding != "UTF8":
        message = (
            f"the database is encoded as {encoding} and cannot hold every text; make one with "
            "CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0"
        )
        raise StoreUnavailableError(message)


def writing_engine(url: URL, durability: Durability, *, connections: int = 1) -> Engine:
    """Return an engine whose connections may write; the writer's has one."""
    settings = {**_WRITING, "synchronous_commit": _SYNCHRONOUS_COMMIT[durability]}
    return _engine(url, settings, connections=connections)


def reading_engine(url: URL) -> Engine:
    """Return the engine with the few connections that may only read."""
    return _engine(url, _READING, connections=READERS_MAX)


def _engine(url: URL, settings: Mapping[str, str], *, connections: int) -> Engine:
    """Return an engine that connects anew when it is used after its server was gone."""
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
        # An error must not carry what callers and administrators wrote into the log.
        hide_parameters=True,
        # What the URL says itself is left as it is.
        connect_args={name: value for name, value in _CONNECTING.items() if name not in url.query},
    )
    sentence = "; ".join(f"SET {name} = '{value}'" for name, value in settings.items())

    def connect(connection: psycopg.Connection[Any], _entry: ConnectionPoolEntry) -> None:
        # Said to the server, not in the connection's options, which a pooler would drop.
        connection.autocommit = True
        connection.execute(sentence).close()
        connection.autocommit = False

    event.listen(engine, "connect", connect)
    name_unstorable_values(engine)
    return engine
