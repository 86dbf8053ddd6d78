"""What searching experiences must do.

A part of `requirements.py`, which holds all of them together.
"""

SEARCHED: dict[str, str] = {
    "memory.search-finds": (
        "A search finds experiences by their words and by their meaning, in every script, on "
        "SQLite and on PostgreSQL, whether the namespace is held in memory whole or as sketches."
    ),
    "memory.search-sees-writes": (
        "What was written is found by the next search of anybody, however many write and search."
    ),
    "memory.search-replicas": (
        "What one replica writes, withdraws or erases is so for the next search of every other."
    ),
    "memory.search-forgets": (
        "What was erased, revoked, put in quarantine or has run out is never found, and what was "
        "corrected only by who asks as of a time before."
    ),
    "memory.search-as-of": (
        "What was corrected since is found as of a time at which it was true, or before which "
        "the house had not heard of its correction."
    ),
    "memory.search-first": (
        "While a large namespace is read for its first search, other searches are answered, those "
        "in the same namespace by what the database finds."
    ),
    "memory.search-pgvector": (
        "Where the database has pgvector, its index finds by meaning what a comparison of all "
        "vectors does, in large namespaces, as soon as it is written and not once it is gone."
    ),
    "memory.search-erases": "An erased text leaves no word of it in any index.",
    "memory.search-tenants": (
        "Nothing of another tenant is found, not even by the name of its namespace."
    ),
    "memory.search-filters": (
        "Filters by lane, kind, actor, session, task class, tags, and by when something was true "
        "or was learned leave out all else."
    ),
    "memory.search-bad-input": (
        "No text of a question does harm: operators, quotes, NUL, halves of characters, and "
        "texts of any length."
    ),
    "memory.sketch-recall": (
        "Sketches of vectors keep 98 of a hundred of those that an exact comparison finds nearest."
    ),
}
