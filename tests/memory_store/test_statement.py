"""Statements of the hot path on both databases: the same values, the same rows."""

import sqlite3
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    MetaData,
    Table,
    Text,
    bindparam,
    delete,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from memory_store.errors import UnstorableError
from memory_store.statement import CONSTRAINT_ERRORS, Driver, Statement

pets = Table(
    "pets",
    MetaData(),
    Column("name", Text, primary_key=True),
    Column("kind", Text),
    Column("weight_g", BigInteger, nullable=False),
    Column("is_tame", Boolean, nullable=False),
)
_new = insert(pets)
INSERT = Statement(insert(pets))
PUT = Statement(
    _new.on_conflict_do_update(
        index_elements=["name"], set_={"weight_g": _new.excluded.weight_g + pets.c.weight_g}
    )
)
MISS = Statement(insert(pets).on_conflict_do_nothing(index_elements=["name"]))
FEED = Statement(
    update(pets)
    .where(pets.c.name == bindparam("of_name"))
    .values(weight_g=pets.c.weight_g + bindparam("more_g"), kind=bindparam("to_kind"))
)
LOSE = Statement(delete(pets).where(pets.c.name == bindparam("of_name")))
ALL = Statement(select(pets).order_by(pets.c.name))


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def driver(request: pytest.FixtureRequest) -> Iterator[Driver]:
    columns = "(name text primary key, kind text, weight_g bigint not null, is_tame boolean)"
    opened: Driver
    if request.param == "sqlite":
        opened = sqlite3.connect(":memory:", isolation_level=None)
    else:
        opened = psycopg.connect(request.getfixturevalue("empty_database"), autocommit=True)
    opened.execute(f"CREATE TABLE pets {columns}")
    yield opened
    opened.close()


def _pet(name: str, weight_g: int = 1, kind: str | None = "cat") -> dict[str, Any]:
    return {"name": name, "kind": kind, "weight_g": weight_g, "is_tame": True}


def _rows(driver: Driver) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in ALL.rows(driver, {})]


@pytest.mark.parametrize("text", ["'; DROP TABLE pets; --", 'a "b" \\ c', "100 % %(name)s", "ø☃\n"])
def test_text_is_stored_as_it_is(driver: Driver, text: str) -> None:
    INSERT.run(driver, _pet("one", kind=text))
    INSERT.run_many(driver, [_pet("two", kind=text), _pet("zwo", kind=None)])

    assert [row[1] for row in _rows(driver)] == [text, text, None]


def test_many_rows_are_stored_with_the_largest_integers(driver: Driver) -> None:
    INSERT.run_many(driver, [_pet("one", 2**63 - 1), _pet("two", -(2**63))])

    assert _rows(driver) == [("one", "cat", 2**63 - 1, True), ("two", "cat", -(2**63), True)]


def test_many_of_no_rows_is_nothing(driver: Driver) -> None:
    INSERT.run_many(driver, [])

    assert _rows(driver) == []


def test_rows_that_change_one_row_do_so_in_their_order(driver: Driver) -> None:
    INSERT.run(driver, _pet("one"))

    PUT.run_many(driver, [_pet("one", 2), _pet("two", 4), _pet("one", 8)])
    FEED.run_many(
        driver,
        [
            {"of_name": "one", "more_g": 16, "to_kind": "dog"},
            {"of_name": "two", "more_g": 32, "to_kind": "dog"},
            {"of_name": "one", "more_g": 64, "to_kind": "cow"},
        ],
    )

    assert [row[:3] for row in _rows(driver)] == [("one", "cow", 91), ("two", "dog", 36)]


def test_a_row_that_is_there_is_missed(driver: Driver) -> None:
    MISS.run_many(driver, [_pet("one", 1), _pet("two", 2), _pet("one", 3)])

    assert [row[2] for row in _rows(driver)] == [1, 2]


def test_many_are_removed(driver: Driver) -> None:
    INSERT.run_many(driver, [_pet("one"), _pet("two"), _pet("zwo")])

    LOSE.run_many(driver, [{"of_name": "one"}, {"of_name": "zwo"}, {"of_name": "none"}])

    assert [row[0] for row in _rows(driver)] == ["two"]


def test_a_row_that_the_schema_refuses_is_told_apart(driver: Driver) -> None:
    INSERT.run(driver, _pet("one"))

    with pytest.raises(CONSTRAINT_ERRORS):
        INSERT.run(driver, _pet("one"))
    with pytest.raises(CONSTRAINT_ERRORS):
        INSERT.run_many(driver, [_pet("two"), _pet("one")])


@pytest.mark.parametrize(
    ("values", "name"),
    [({"kind": "\ud800"}, "kind"), ({"weight_g": 2**63}, "weight_g")],
    ids=["half a pair", "65 bits"],
)
def test_a_value_that_nothing_holds_is_named(
    driver: Driver, values: dict[str, Any], name: str
) -> None:
    with pytest.raises(UnstorableError) as alone:
        INSERT.run(driver, {**_pet("one"), **values})
    with pytest.raises(UnstorableError) as among_many:
        INSERT.run_many(driver, [_pet("two"), {**_pet("one"), **values}])

    assert alone.value.names == among_many.value.names == (name,)


@pytest.mark.parametrize("driver", ["postgresql"], indirect=True)
def test_a_nul_is_named_where_the_database_holds_none(driver: Driver) -> None:
    with pytest.raises(UnstorableError) as alone:
        INSERT.run(driver, _pet("one", kind="a\0b"))
    with pytest.raises(UnstorableError) as among_many:
        INSERT.run_many(driver, [_pet("two"), _pet("one", kind="a\0b")])

    assert alone.value.names == among_many.value.names == ("kind",)


@pytest.mark.parametrize("driver", ["postgresql"], indirect=True)
def test_a_sum_that_leaves_64_bits_is_no_fault_of_its_values(driver: Driver) -> None:
    INSERT.run(driver, _pet("one", 2**63 - 1))

    with pytest.raises(psycopg.DataError):
        FEED.run(driver, {"of_name": "one", "more_g": 1, "to_kind": "cat"})
