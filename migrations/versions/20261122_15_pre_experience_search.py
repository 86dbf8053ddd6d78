"""What experiences are searched by: an index of their words, kept by triggers on their terms."""

from alembic import op

revision = "20261122_15"
down_revision = "20261122_14"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index, and fill it with what is there."""
    connection = op.get_bind()
    is_server = connection.dialect.name == "postgresql"
    for statement in _POSTGRESQL if is_server else _SQLITE:
        connection.exec_driver_sql(statement)


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
_SQLITE = (_TABLE, _AFTER_INSERT, _AFTER_DELETE, _AFTER_UPDATE, _FILL)

_SERVER_TABLE = """
CREATE TABLE experience_words (
    number BIGINT PRIMARY KEY REFERENCES experience_terms (number) ON DELETE CASCADE,
    words TSVECTOR NOT NULL
)
"""
_WORDS_OF = """
CREATE FUNCTION experience_words_of(namespace TEXT, terms TEXT) RETURNS TSVECTOR
LANGUAGE sql IMMUTABLE AS $$
    SELECT array_to_tsvector(string_to_array(
        namespace || ':' || replace(terms, ' ', ' ' || namespace || ':'), ' '
    ))
$$
"""
_KEPT = """
CREATE FUNCTION experience_words_kept() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO experience_words (number, words)
    VALUES (new.number, experience_words_of(new.namespace, new.terms))
    ON CONFLICT (number) DO UPDATE SET words = excluded.words;
    RETURN NULL;
END
$$
"""
_KEEP = """
CREATE TRIGGER experience_words_kept AFTER INSERT OR UPDATE ON experience_terms
FOR EACH ROW EXECUTE FUNCTION experience_words_kept()
"""
_SERVER_FILL = """
INSERT INTO experience_words (number, words)
SELECT number, experience_words_of(namespace, terms) FROM experience_terms
"""
_FIND = "CREATE INDEX ix_experience_words_words ON experience_words USING gin (words)"
_POSTGRESQL = (_SERVER_TABLE, _WORDS_OF, _KEPT, _KEEP, _SERVER_FILL, _FIND)
