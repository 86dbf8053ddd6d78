"""How long PostgreSQL's pgvector takes for the same vectors as the sketches, and what it finds.

A table of half-precision vectors with an HNSW index as pgvector makes it by default and as the
store makes it, one query at a time over a socket of this machine; beside it the same vectors as
sketches. As in the store, four hundred and more are asked for of either, and it counts whether the
ten nearest are among them; with pgvector's default breadth of 40, ten are.
"""

import argparse
import time
from collections.abc import Iterator

import numpy as np
import psycopg

from benchmarks.measure import machine, percentiles
from benchmarks.memory_corpus import corpus
from governor.retrieval.sketches import Sketches
from runtime.word_vectors.loading import word_vectors
from tests.postgresql_server import running_server

QUESTIONS, MOST = 100, 10
# How far the index is followed: pgvector's default, and further.
BREADTHS = (40, 200, 400, 500, 1_000)
# As pgvector makes an index, and as the store does.
INDEXES = ((16, 64), (24, 128))
_COPIED = 5_000


def main(total: int) -> None:
    """Print the table."""
    print(machine())
    vectors, questions = embedded(total)
    truly = [np.argpartition(-(vectors @ asked), MOST)[:MOST] for asked in questions]
    print("| what | n | p50 ms | p99 ms | recall@10 |\n|---|---|---|---|---|")
    sketches = Sketches(axes=vectors.shape[1])
    sketches.add(vectors)
    took, shares = [], []
    for asked, nearest in zip(questions, truly, strict=True):
        began = time.perf_counter()
        places = sketches.nearest(asked, most=400 + total // 1_000)
        near = places[np.argpartition(-(vectors[places] @ asked), MOST)[:MOST]]
        took.append((time.perf_counter() - began) * 1e3)
        shares.append(np.isin(nearest, near).mean())
    row("sketches, rescored from memory", total, took, shares)
    settings = {"maintenance_work_mem": "1GB", "shared_buffers": "1GB"}
    with (
        running_server(**settings) as server,
        server.database() as url,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        built(connection, vectors)
        for links, build_breadth in INDEXES:
            indexed(connection, links=links, build_breadth=build_breadth)
            for breadth in BREADTHS:
                asking(connection, questions, truly, breadth=breadth, total=total)


def embedded(total: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return the vectors of so many texts, and those of questions about some of them."""
    made, chance = corpus(), np.random.default_rng(2)
    vectors = np.zeros((total, word_vectors().axes), dtype=np.float32)
    chosen = set(chance.integers(total, size=QUESTIONS).tolist())
    questions = []
    for number, text in enumerate(made.texts(total, seed=2)):
        vectors[number] = word_vectors().embed(text)
        if number in chosen:
            questions.append(word_vectors().embed(made.question(text, chance)))
    return vectors, questions


def built(connection: "psycopg.Connection[tuple[object, ...]]", vectors: np.ndarray) -> None:
    """Store the vectors, and print how long that takes."""
    connection.execute("CREATE EXTENSION vector")
    axes = vectors.shape[1]
    connection.execute(f"CREATE TABLE places (number BIGINT, place HALFVEC({axes}))")
    began = time.perf_counter()
    with connection.cursor().copy("COPY places FROM STDIN") as copy:
        for number, text in enumerate(written(vectors)):
            copy.write_row((number, text))
    print(f"pgvector: copied in {time.perf_counter() - began:.0f} s")


def indexed(
    connection: "psycopg.Connection[tuple[object, ...]]", *, links: int, build_breadth: int
) -> None:
    """Index the vectors, and print how long that takes."""
    connection.execute("DROP INDEX IF EXISTS places_place_idx")
    began = time.perf_counter()
    connection.execute(
        "CREATE INDEX ON places USING hnsw (place halfvec_ip_ops) "
        f"WITH (m = {links}, ef_construction = {build_breadth})"
    )
    took = time.perf_counter() - began
    size = connection.execute("SELECT pg_size_pretty(pg_indexes_size('places'))").fetchone()
    assert size is not None, "an index has a size"
    print(f"m {links}, ef_construction {build_breadth}: in {took:.0f} s, {size[0]} of index")


def written(vectors: np.ndarray) -> Iterator[str]:
    """Yield each vector as pgvector reads it."""
    for begin in range(0, len(vectors), _COPIED):
        for vector in vectors[begin : begin + _COPIED].tolist():
            yield f"[{','.join([f'{axis:.4f}' for axis in vector])}]"


def asking(
    connection: "psycopg.Connection[tuple[object, ...]]",
    questions: list[np.ndarray],
    truly: list[np.ndarray],
    *,
    breadth: int,
    total: int,
) -> None:
    """Print how long the questions take, and what they find."""
    connection.execute(f"SET hnsw.ef_search = {breadth}")
    took, shares = [], []
    most = MOST if breadth == BREADTHS[0] else breadth
    texts = list(written(np.array(questions)))
    for text, nearest in zip(texts, truly, strict=True):
        began = time.perf_counter()
        rows = connection.execute(
            "SELECT number FROM places ORDER BY place <#> %s::halfvec LIMIT %s", (text, most)
        ).fetchall()
        took.append((time.perf_counter() - began) * 1e3)
        shares.append(np.isin(nearest, [number for (number,) in rows]).mean())
    row(f"pgvector HNSW, ef_search {breadth}", total, took, shares)


def row(what: str, total: int, took: list[float], shares: list[float]) -> None:
    """Print a line of the table."""
    middle, high = percentiles(took)
    print(f"| {what} | {total} | {middle:.2f} | {high:.2f} | {np.mean(shares):.3f} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    main(parser.parse_args().items)
