"""Whether the index of words has what it is derived from."""

import sqlite3
from collections.abc import Sequence

from memory_store.experiences.check_pages import Words
from memory_store.search.words import quoted
from memory_store.statement import Driver

# Of one experience in one question; what loses words loses whole pages of them.
_TERMS_MAX = 200


def unfound(driver: Driver, words: Sequence[Words]) -> frozenset[int]:
    """Return the numbers of those that the index does not have with all of their words."""
    if isinstance(driver, sqlite3.Connection):
        return frozenset(one.number for one in words if not _is_found(driver, one))
    rows = driver.execute(
        "SELECT terms.number FROM experience_terms AS terms"
        " LEFT JOIN experience_words AS words ON words.number = terms.number"
        " WHERE terms.number = ANY(%s)"
        " AND words.words IS DISTINCT FROM experience_words_of(terms.namespace, terms.terms)",
        ([one.number for one in words],),
    )
    return frozenset(number for (number,) in rows.fetchall())


def _is_found(driver: sqlite3.Connection, one: Words) -> bool:
    terms = [term for term in dict.fromkeys(one.terms.split(" ")) if term and "\0" not in term]
    if not terms:
        return True
    asked = " AND ".join(quoted(f"{one.namespace}:{term}", '"') for term in terms[:_TERMS_MAX])
    try:
        found = driver.execute(
            "SELECT 1 FROM experience_words WHERE experience_words MATCH ? AND rowid = ?",
            (asked, one.number),
        ).fetchone()
    except sqlite3.DatabaseError:
        return False  # the index is damaged itself
    return found is not None
