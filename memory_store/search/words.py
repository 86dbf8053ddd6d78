"""Which experiences of a namespace hold a word, asked of the database's own index of words.

Each word is indexed with its namespace in front, so that neither what others have written nor
how much of it is seen in what is found, or in how long that takes. The index is kept by
triggers on the table of terms: whatever writes or erases terms cannot forget it.

What is made here for a new database stands again in the migration that made it in older ones: a
migration does not change, so what changes here gets a migration of its own.
"""

import sqlite3
from collections.abc import Sequence
from typing import cast

import numpy as np
from sqlalchemy import DDL, Connection, event
from sqlalchemy.schema import ExecutableDDLElement

from memory_store.engine import driver_of
from memory_store.experiences.tables import experience_terms
from memory_store.search.columns import Numbers
from memory_store.search.rows import Place
from memory_store.statement import Driver

# Not the text, which is in the table of terms, nor where in it a word stands. Only spaces cut.
_TABLE = """
CREATE VIRTUAL TABLE experience_words USING fts5(
    terms, content='', columnsize=0, detail='none',
    tokenize='unicode61 remove_diacritics 0 categories ''L* N* M* P* S* Co'''
)
"""
_AFTER_INSERT = """
CREATE TRIGGER experience_words_after_insert AFTER INSERT ON experience_terms
BEGIN
    INSERT INTO experience_words (rowid, terms) VALUES (
        new.number,
        new.namespace || ':' || replace(new.terms, ' ', ' ' || new.namespace || ':')
    );
END
"""
_AFTER_DELETE = """
CREATE TRIGGER experience_words_after_delete AFTER DELETE ON experience_terms
BEGIN
    INSERT INTO experience_words (experience_words, rowid, terms) VALUES (
        'delete', old.number,
        old.namespace || ':' || replace(old.terms, ' ', ' ' || old.namespace || ':')
    );
END
"""
_AFTER_UPDATE = """
CREATE TRIGGER experience_words_after_update AFTER UPDATE ON experience_terms
BEGIN
    INSERT INTO experience_words (experience_words, rowid, terms) VALUES (
        'delete', old.number,
        old.namespace || ':' || replace(old.terms, ' ', ' ' || old.namespace || ':')
    );
    INSERT INTO experience_words (rowid, terms) VALUES (
        new.number,
        new.namespace || ':' || replace(new.terms, ' ', ' ' || new.namespace || ':')
    );
END
"""
_FILL = """
INSERT INTO experience_words (rowid, terms)
SELECT number, namespace || ':' || replace(terms, ' ', ' ' || namespace || ':')
FROM experience_terms
"""
_SERVER_FILL = """
INSERT INTO experience_words (number, words)
SELECT number, experience_words_of(namespace, terms) FROM experience_terms
"""
# SQLite documents fewer as the sign that everything is merged.
_CHANGES_MIN = 2
# Merging all of them takes a quarter of a second at most.
_PAGES_MAX = 4_000
_MERGE_ALL = "INSERT INTO experience_words (experience_words) VALUES ('optimize')"
_MERGE_SOME = "INSERT INTO experience_words (experience_words, rank) VALUES ('merge', -1000)"
_EMPTY = "INSERT INTO experience_words (experience_words) VALUES ('delete-all')"
_SERVER_EMPTY = "TRUNCATE experience_words"


def _on_sqlite(statement: str) -> ExecutableDDLElement:
    ddl = DDL(statement)  # type: ignore[no-untyped-call]  # theirs
    return cast("ExecutableDDLElement", ddl.execute_if(dialect="sqlite"))


for _statement in (_TABLE, _AFTER_INSERT, _AFTER_DELETE, _AFTER_UPDATE):
    event.listen(experience_terms, "after_create", _on_sqlite(_statement))


def holders(driver: Driver, place: Place, term: str, *, most: int) -> Numbers:
    """Return the numbers of at most `most` experiences of a namespace that hold a term."""
    word = f"{place.namespace}:{term}"
    if isinstance(driver, sqlite3.Connection):
        # The latest: that is the order that costs nothing.
        rows: Sequence[tuple[int]] = driver.execute(
            "SELECT rowid FROM experience_words WHERE experience_words MATCH ? "
            "ORDER BY rowid DESC LIMIT ?",
            (quoted(word, '"'), most),
        ).fetchall()
    else:
        rows = driver.execute(
            "SELECT number FROM experience_words WHERE words @@ %s::tsquery LIMIT %s",
            (quoted(word.replace("\\", "\\\\"), "'"), most),
        ).fetchall()
    return np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))


def scrub(connection: Connection) -> bool:
    """Return whether no word of what was erased is left in the pages of the index.

    FTS5 notes what is deleted and drops it when it merges; large ones merge a part at a time.
    """
    driver = driver_of(connection)
    if not isinstance(driver, sqlite3.Connection):
        return True  # as with every row, what is dead goes with the next VACUUM
    (pages,) = driver.execute("SELECT count(*) FROM experience_words_data").fetchone()
    if pages <= _PAGES_MAX:
        driver.execute(_MERGE_ALL)
        return True
    before = driver.total_changes
    driver.execute(_MERGE_SOME)
    # One is the command itself: there was nothing left to merge.
    return driver.total_changes - before < _CHANGES_MIN


def rebuild(connection: Connection) -> None:
    """Make the index of words anew of the terms that are stored."""
    is_server = connection.dialect.name == "postgresql"
    connection.exec_driver_sql(_SERVER_EMPTY if is_server else _EMPTY)
    connection.exec_driver_sql(_SERVER_FILL if is_server else _FILL)


def quoted(word: str, mark: str) -> str:
    """Return a word as both indexes take it, between marks."""
    # What ends a text, for the index or for the server, stands in no term.
    return f"{mark}{word.replace(chr(0), ' ').replace(mark, mark * 2)}{mark}"
