"""Experiences near a question in meaning, asked of pgvector where a database has it.

The vectors are stored twice: as the truth, for whatever compares them, and here, for an index of
PostgreSQL's. What is here is derived, filled behind the writes, and goes with what it was made
of. It is no part of the schema, because neither the extension nor how many axes vectors have is
the schema's to say: it is made where it is used, by one sidecar at a time, and can be dropped.

Each namespace has an index of its own. In one for all of them, what others wrote would be seen
in what is found (the nearest of all, of which few are the asker's) and in how long that takes.
"""

import sqlite3
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import numpy as np
import psycopg
from psycopg import sql
from sqlalchemy import Connection, select

from governor.ids import NamespaceId
from governor.retrieval.vectors import Vector
from memory_store.engine import driver_of
from memory_store.experiences.tables import experience_vectors, experiences
from memory_store.search import rows
from memory_store.search.columns import Numbers
from memory_store.search.rows import Place
from memory_store.statement import Driver

# How far the index is followed: farther in a larger namespace, or it finds too few of the nearest;
# at most as far as pgvector follows it in one go.
BREADTH_MIN, BREADTH_SHARE, BREADTH_MAX = 400, 200, 1_000
# How many are asked of the index where most of them may not be seen; it gives up about there.
FETCHED_MAX = 20_000
# Denser than pgvector's default, which finds nine of ten of what this finds.
_LINKS, _BUILD_BREADTH = 24, 128
# Since then the index goes on where too few of the first may be seen.
_GOES_ON_SINCE = (0, 8)

_VERSION = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
# The type is that of 0.7; it may be in a schema that nobody looks into.
_IS_USABLE = "SELECT to_regtype('halfvec') IS NOT NULL"
_IS_THERE = "SELECT to_regclass(%s) IS NOT NULL"
# Whoever dropped the extension dropped the column and left the table.
_HAS_PLACES = """
SELECT EXISTS (
    SELECT FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attname = 'place' AND NOT attisdropped
)
"""
_MAKE_UPTO = """
CREATE TABLE IF NOT EXISTS experience_nearness_upto (
    namespace TEXT, axes INTEGER, upto BIGINT NOT NULL, PRIMARY KEY (namespace, axes)
)
"""
_FORGET_UPTO = "DELETE FROM experience_nearness_upto WHERE axes = %s"
_SET_UPTO = """
INSERT INTO experience_nearness_upto (namespace, axes, upto) VALUES (%s, %s, %s)
ON CONFLICT (namespace, axes) DO UPDATE SET upto = excluded.upto
"""
_GET_UPTO = "SELECT upto FROM experience_nearness_upto WHERE namespace = %s AND axes = %s"
_DROP = sql.SQL("DROP TABLE IF EXISTS {}")
_MAKE = sql.SQL("""
CREATE TABLE {} (
    number BIGINT PRIMARY KEY REFERENCES experience_vectors (number) ON DELETE CASCADE,
    namespace TEXT NOT NULL,
    place HALFVEC({}) NOT NULL
)
""")
_MAKE_INDEX = sql.SQL("""
CREATE INDEX {} ON {} USING hnsw (place halfvec_ip_ops)
WITH (m = {}, ef_construction = {}) WHERE namespace = {}
""")
_INSERT = sql.SQL("""
INSERT INTO {} (number, namespace, place) VALUES (%s, %s, %s::halfvec)
ON CONFLICT (number) DO NOTHING
""")
# The namespace is written out: only then is its index one that answers.
_NEAREST = sql.SQL(
    "SELECT number FROM {} WHERE namespace = {} ORDER BY place <#> %s::halfvec LIMIT %s"
)
_NEAREST_AMONG = sql.SQL("""
WITH compared AS MATERIALIZED (
    SELECT number, place <#> %s::halfvec AS apart FROM {} WHERE number = ANY(%s)
)
SELECT number FROM compared ORDER BY apart LIMIT %s
""")
_TRUNCATE = sql.SQL("TRUNCATE {}")
_OF = experiences.c


def version(connection: Connection) -> tuple[int, ...] | None:
    """Return which pgvector can be used in a database, None without one."""
    if connection.dialect.name != "postgresql":
        return None
    if not connection.exec_driver_sql(_IS_USABLE).scalar_one():
        return None
    found = connection.exec_driver_sql(_VERSION).scalar()
    return None if found is None else tuple(int(part) for part in found.split(".")[:2])


def make(connection: Connection, place: Place, *, axes: int) -> None:
    """Make what a namespace's vectors are kept and found in, where it is not there."""
    driver, index = _server(connection), _index(place.namespace, axes)
    if _yes(driver, _IS_THERE, index):
        return
    driver.execute(_MAKE_UPTO)
    if not _yes(driver, _HAS_PLACES, _table(axes)):
        table = sql.Identifier(_table(axes))
        driver.execute(_DROP.format(table))
        driver.execute(_FORGET_UPTO, (axes,))
        driver.execute(_MAKE.format(table, sql.Literal(axes)))
    names = (sql.Identifier(index), sql.Identifier(_table(axes)))
    words = [sql.Literal(word) for word in (_LINKS, _BUILD_BREADTH, place.namespace)]
    driver.execute(_MAKE_INDEX.format(*names, *words))


def fill(connection: Connection, place: Place, *, axes: int, most: int) -> bool:
    """Take over the next vectors of a namespace, and tell whether more follow."""
    driver = _server(connection)
    after = upto(driver, place.namespace, axes=axes) or 0
    # A tenant's experiences are numbered in the order in which they are committed, so nothing
    # comes later than what is read here with a number below it.
    read = driver.execute(
        f"{_NUMBERS} WHERE {_OF.tenant} = %s AND {_OF.namespace} = %s AND {_OF.number} > %s "
        f"ORDER BY {_OF.number} LIMIT %s",
        (place.tenant, place.namespace, after, most),
    ).fetchall()
    numbers = [number for (number,) in read]
    if not numbers:
        return False
    # Locked, so that none is erased until its row here is there to be erased with it.
    stored = driver.execute(
        f"{_VECTORS} WHERE number = ANY(%s) FOR KEY SHARE", (numbers,)
    ).fetchall()
    taken = [
        (number, place.namespace, written(vector))
        for number, content in stored
        if (vector := rows.vector_of(content, axes=axes)) is not None
    ]
    driver.cursor().executemany(_INSERT.format(sql.Identifier(_table(axes))), taken)
    driver.execute(_SET_UPTO, (place.namespace, axes, numbers[-1]))
    return len(numbers) == most


def upto(driver: Driver, namespace: NamespaceId, *, axes: int) -> int | None:
    """Return up to which number a namespace is in its index, None where there is no index."""
    if isinstance(driver, sqlite3.Connection):
        return None
    if not _yes(driver, _IS_THERE, _index(namespace, axes)):
        return None
    found = driver.execute(_GET_UPTO, (namespace, axes)).fetchone()
    return None if found is None else int(found[0])


def nearest(
    driver: Driver, namespace: NamespaceId, vector: Vector, *, most: int, among: int
) -> Numbers:
    """Return the numbers of about the `most` nearest `among` so many that a namespace has."""
    assert not isinstance(driver, sqlite3.Connection), "it is a server's"
    found = driver.execute(_VERSION).fetchone()
    goes_on = found is not None and tuple(map(int, found[0].split(".")[:2])) >= _GOES_ON_SINCE
    breadth = min(max(most, BREADTH_MIN + among // BREADTH_SHARE), BREADTH_MAX)
    settings = {"hnsw.ef_search": str(breadth), "enable_seqscan": "off"}
    if goes_on and most > breadth:
        settings |= {
            "hnsw.iterative_scan": "relaxed_order",
            "hnsw.max_scan_tuples": str(FETCHED_MAX),
        }
    asked = ", ".join(["set_config(%s, %s, true)"] * len(settings))
    driver.execute(f"SELECT {asked}", [word for pair in settings.items() for word in pair])
    statement = _NEAREST.format(sql.Identifier(_table(vector.size)), sql.Literal(namespace))
    read = driver.execute(statement, (written(vector), most), prepare=False).fetchall()
    driver.execute("SELECT set_config('enable_seqscan', 'on', true)").close()
    return np.array([number for (number,) in read], dtype=np.int64)


def nearest_among(driver: Driver, numbers: Numbers, vector: Vector, *, most: int) -> Numbers:
    """Return those of the numbers that are the `most` nearest, each of them compared."""
    assert not isinstance(driver, sqlite3.Connection), "it is a server's"
    statement = _NEAREST_AMONG.format(sql.Identifier(_table(vector.size)))
    read = driver.execute(statement, (written(vector), numbers.tolist(), most)).fetchall()
    return np.array([number for (number,) in read], dtype=np.int64)


def empty(connection: Connection, *, axes: int) -> None:
    """Have everything filled anew, if there is anything."""
    driver = driver_of(connection)
    if not isinstance(driver, sqlite3.Connection) and _yes(driver, _IS_THERE, _table(axes)):
        driver.execute(_TRUNCATE.format(sql.Identifier(_table(axes))))
        driver.execute(_FORGET_UPTO, (axes,))


def written(vector: Sequence[float] | Vector) -> str:
    """Return a vector as pgvector reads it; five digits are more than half a float has."""
    return f"[{','.join([f'{axis:.5g}' for axis in vector])}]"


def _server(connection: Connection) -> psycopg.Connection[Any]:
    driver = driver_of(connection)
    assert isinstance(driver, psycopg.Connection), "it is a server's"
    return driver


def _yes(driver: psycopg.Connection[Any], question: str, name: str) -> bool:
    row = driver.execute(question, (name,)).fetchone()
    return row is not None and bool(row[0])


def _table(axes: int) -> str:
    return f"experience_nearness_{int(axes)}"


def _index(namespace: NamespaceId, axes: int) -> str:
    # A name has 63 letters at most, and a namespace may have more.
    return f"ix_experience_nearness_{int(axes)}_{sha256(namespace.encode()).hexdigest()[:24]}"


_NUMBERS = f"{select(_OF.number)}"
_VECTORS = f"{select(experience_vectors.c.number, experience_vectors.c.vector)}"
