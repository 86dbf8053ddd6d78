"""Writing, reading and searching experiences at ten thousand, a hundred thousand and a million.

Everything goes through the store, as the house does it; beside it stand plain FTS5 and the whole
matrix of vectors in memory. What is found is held against an exact comparison of all vectors, and
against where the questions come from, in the same run.
"""

import argparse
import resource
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import anyio
import numpy as np

from benchmarks.measure import machine, percentiles
from benchmarks.memory_corpus import SESSION, Corpus, corpus
from governor.experience.experience import Draft, Provenance
from governor.experience.kinds import ExperienceKind, TrustLane
from governor.experience.search import Found, Search
from governor.ids import ExperienceId, NamespaceId, PrincipalId, SessionId, TenantId
from governor.retrieval.analysis import index_terms, query_terms, traits_of
from governor.retrieval.sketches import Sketches
from memory_store.audit import Actor
from memory_store.experiences.values import Indexed
from memory_store.search.search import FoundBy
from memory_store.store import Store, open_store
from runtime.collector import spare_what_lasts
from runtime.memory_ranker import memory_ranker
from runtime.word_vectors.loading import word_vectors

SMALL = 10_000
QUESTIONS = 100
ROUNDS = 3
READS = 2_000
TENANT, AGENT = TenantId("acme"), PrincipalId("ada")
# How callers write: so many at a time, each so many experiences.
WRITERS, TOGETHER = 8, 64
RECALL_MIN, FOUND_MIN = 0.98, 0.8
MOST = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question, and the number in its namespace of the experience it was made of."""

    text: str
    of: int


@dataclass(slots=True, kw_only=True)
class Space:
    """A namespace with what the check needs: its vectors, texts and questions."""

    namespace: NamespaceId
    vectors: np.ndarray
    texts: list[str]
    questions: list[Asked]

    def search(self, asked: Asked) -> Search:
        """Return the search for a question."""
        return Search(
            tenant=TENANT, namespaces=(self.namespace,), text=asked.text, now_ms=10**12, most=MOST
        )


async def main(total: int, folder: Path | None, url: str | None) -> None:
    """Print the tables."""
    spare_what_lasts()
    print(machine())
    print("| what | n | p50 ms | p99 ms | |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=folder) as state:
        finding = FoundBy(vectors=word_vectors(), ranker=memory_ranker())
        async with open_store(Path(state, "state"), url=url, finding=finding) as store:
            await store.tenants.create(TENANT, name="Acme", by=Actor(name="root"), now_ms=1)
            made = corpus()
            small = await written(store, made, "small", SMALL, seed=1)
            large = await written(store, made, "large", total, seed=2)
            await reading(store, small)
            for space in (small, large):
                await searching(store, space)
            print(f"held in memory: {store.experience_search.held_bytes / 1e6:.0f} MB")
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            print(f"peak of the whole process, the check's matrices included: {peak / 1e3:.0f} MB")
        plain_fts5(Path(state, "plain.db"), large)
        by_hand(large)


async def written(store: Store, made: Corpus, name: str, total: int, *, seed: int) -> Space:
    """Return a new namespace with so many experiences, and print how fast they were written."""
    space = await store.namespaces.make(name, tenant=TENANT, now_ms=1)
    vectors = np.zeros((total, word_vectors().axes), dtype=np.float32)
    texts: list[str] = []
    indexed_s = written_s = 0.0
    source = made.texts(total, seed=seed)
    while chunk := list(islice(source, WRITERS * TOGETHER * 8)):
        began = time.perf_counter()
        drafts = []
        for text in chunk:
            vector = word_vectors().embed(text)
            vectors[len(texts)] = vector
            drafts.append(draft(space.namespace, text, len(texts), vector))
            texts.append(text)
        indexed_s += time.perf_counter() - began
        began = time.perf_counter()
        await write_all(store, drafts)
        written_s += time.perf_counter() - began
    print(
        f"| write, {WRITERS} callers with {TOGETHER} each | {total} | | | "
        f"{total / written_s:.0f}/s ({total / indexed_s:.0f}/s cut and embedded) |",
        flush=True,
    )
    chance = np.random.default_rng(seed)
    chosen = chance.integers(total, size=QUESTIONS).tolist()
    questions = [Asked(text=made.question(texts[of], chance), of=of) for of in chosen]
    return Space(namespace=space.namespace, vectors=vectors, texts=texts, questions=questions)


async def write_all(store: Store, drafts: Sequence[Indexed]) -> None:
    """Write the drafts as concurrent callers do."""
    parts = iter([tuple(drafts[at : at + TOGETHER]) for at in range(0, len(drafts), TOGETHER)])

    async def caller(parts: Iterator[tuple[Indexed, ...]]) -> None:
        for part in parts:
            await store.experiences.write(part)

    async with anyio.create_task_group() as group:
        for _ in range(WRITERS):
            group.start_soon(caller, parts)


def draft(namespace: NamespaceId, text: str, number: int, vector: np.ndarray) -> Indexed:
    """Return what is written of a text."""
    return Indexed(
        draft=Draft(
            experience_id=ExperienceId(f"{namespace}_{number:08d}"),
            tenant=TENANT,
            namespace=namespace,
            kind=ExperienceKind.OBSERVATION,
            lane=TrustLane.AGENT,
            content=text.encode(),
            media_type="text/plain",
            summary=text[:100],
            provenance=Provenance(writer=AGENT),
            learned_at_ms=number,
            valid_from_ms=number,
            session=SessionId(f"s{number // SESSION}"),
        ),
        terms=index_terms(text),
        vector=vector.astype("<f2").tobytes(),
        traits=traits_of(text),
    )


async def reading(store: Store, space: Space) -> None:
    """Print how long an experience takes to be read by its index."""
    chance = np.random.default_rng(3)
    took = []
    for at in chance.integers(len(space.texts), size=READS).tolist():
        began = time.perf_counter()
        read = await store.experiences.content(
            ExperienceId(f"{space.namespace}_{at:08d}"), tenant=TENANT
        )
        took.append((time.perf_counter() - began) * 1e3)
        assert read.content == space.texts[at].encode(), "another text was read"
    row("read by index, verified, with its receipt", len(space.texts), took)


async def searching(store: Store, space: Space) -> None:
    """Print how long searches take, and what they find."""
    total = len(space.texts)
    began = time.perf_counter()
    await store.experience_search.search(space.search(space.questions[0]))
    print(
        f"| first search, which reads the namespace | {total} | | | "
        f"{time.perf_counter() - began:.1f} s |"
    )
    hybrid, cpu_ms, found = await timed(store.experience_search.search, space)
    hit = statistics.mean(any(at == asked.of for at in found_of) for asked, found_of in found)
    row("hybrid search", total, hybrid, f"{cpu_ms:.2f} ms of CPU; finds its own: {hit:.3f}")
    near, cpu_ms, found = await timed(store.experience_search.nearest, space)
    recall = recall_of(space, found)
    row("nearest vectors", total, near, f"{cpu_ms:.2f} ms of CPU; recall@10: {recall:.3f}")
    assert hit >= FOUND_MIN, "searches do not find what questions were made of"
    assert recall >= RECALL_MIN, "the nearest are not what an exact comparison finds"


async def timed(
    ask: Callable[[Search], Awaitable[Found]], space: Space
) -> tuple[list[float], float, list[tuple[Asked, list[int]]]]:
    """Return the milliseconds of each question, the mean of its CPU, and what was found last."""
    took = []
    cpu_s = time.process_time()
    for _ in range(ROUNDS):
        found = []
        for asked in space.questions:
            began = time.perf_counter()
            hits = (await ask(space.search(asked))).hits
            took.append((time.perf_counter() - began) * 1e3)
            found.append((asked, [int(hit.experience.learned_at_ms) for hit in hits]))
    return took, (time.process_time() - cpu_s) / len(took) * 1e3, found


def recall_of(space: Space, found: list[tuple[Asked, list[int]]]) -> float:
    """Return which share of the truly nearest was found; equally near ones count the same."""
    stored = space.vectors.astype("<f2").astype(np.float32)
    shares = []
    for asked, numbers in found:
        cosines = stored @ word_vectors().embed(asked.text)
        least = np.partition(cosines, -MOST)[-MOST]
        shares.append(float((cosines[numbers] >= least - 1e-6).sum()) / MOST)
    return statistics.mean(shares)


def plain_fts5(path: Path, space: Space) -> None:
    """Print what FTS5 alone takes for any of the words, ranked by its own BM25."""
    with sqlite3.connect(path) as database:
        database.execute("CREATE VIRTUAL TABLE plain USING fts5(text, tokenize='porter')")
        rows = ((text,) for text in space.texts)
        database.executemany("INSERT INTO plain (text) VALUES (?)", rows)
    took = []
    for asked in space.questions:
        words = " OR ".join(f'"{term}"' for term in query_terms(asked.text))
        began = time.perf_counter()
        database.execute(
            "SELECT rowid FROM plain WHERE plain MATCH ? ORDER BY rank LIMIT ?", (words, MOST)
        ).fetchall()
        took.append((time.perf_counter() - began) * 1e3)
    database.close()
    row("beside it: plain FTS5, any word", len(space.texts), took)


def by_hand(space: Space) -> None:
    """Print what numpy takes for all vectors, and the sketches alone."""
    exact, sketched = [], []
    sketches = Sketches(axes=space.vectors.shape[1])
    sketches.add(space.vectors)
    for asked in space.questions:
        vector = word_vectors().embed(asked.text)
        began = time.perf_counter()
        np.argpartition(-(space.vectors @ vector), MOST)
        exact.append((time.perf_counter() - began) * 1e3)
        began = time.perf_counter()
        sketches.nearest(vector, most=400 + len(space.texts) // 1_000)
        sketched.append((time.perf_counter() - began) * 1e3)
    row("beside it: numpy, every vector", len(space.texts), exact)
    row("of which: sketches alone", len(space.texts), sketched)


def row(what: str, total: int, took: list[float], note: str = "") -> None:
    """Print a line of the table."""
    middle, high = percentiles(took)
    print(f"| {what} | {total} | {middle:.2f} | {high:.2f} | {note} |", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="where the store is made, on a disk")
    parser.add_argument("--url", help="of an empty PostgreSQL database, in place of SQLite")
    arguments = parser.parse_args()
    anyio.run(main, arguments.items, arguments.folder, arguments.url)
