"""One peer memory, asked for the turns of conversations; run by the peer's own interpreter.

Reads from standard input JSON as `memory.py` writes it: conversations, each with texts and their
vectors, questions and theirs. Writes to standard output a list of rankings (numbers of texts) for
each conversation. Every peer gets the same vectors at the place where it takes an embedder, so
that only its own storing, fusing and ranking differ. Imports nothing of Flyball.

Usage: memory_peers.py fts5|fts5_stop|bm25s|chroma|lancedb|txtai|mms|mem0
"""

import asyncio
import json
import logging
import os
import re
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

MOST = 200
STOP = frozenset(
    """
a an the and or but if of to in on at for with by from as is are was were be been being do does did
has have had will would can could should may might what which who whom when where why how that this
these those it its he she they them his her their you your i me my we us our not no so than then too
very about into over after before during s t
""".split()  # noqa: SIM905 - a list of words reads as words
)
Ranking = list[int]
Conversation = dict[str, Any]


def fts5(conversation: Conversation, *, stop: bool) -> list[Ranking]:
    """Rank by SQLite's own index of words, with or without the words that questions are made of."""
    database = sqlite3.connect(":memory:")
    database.execute("create virtual table t using fts5(body, tokenize='porter unicode61')")
    database.executemany(
        "insert into t(rowid, body) values (?, ?)", enumerate(conversation["texts"])
    )
    found = []
    for question in conversation["questions"]:
        words = re.findall("[a-z0-9]+", question.lower())
        kept = [word for word in words if not (stop and word in STOP)] or words
        match = " OR ".join(f'"{word}"' for word in dict.fromkeys(kept))
        rows = database.execute(
            "select rowid from t where t match ? order by bm25(t) limit ?", (match, MOST)
        )
        found.append([row[0] for row in rows])
    return found


def of_bm25s(conversation: Conversation) -> list[Ranking]:
    """Rank by the library bm25s with its own English stop words and stemmer."""
    import bm25s  # type: ignore[import-not-found]
    import Stemmer  # type: ignore[import-not-found]

    cut = {"stopwords": "en", "stemmer": Stemmer.Stemmer("english"), "show_progress": False}
    index = bm25s.BM25()
    index.index(bm25s.tokenize(conversation["texts"], **cut), show_progress=False)
    most = min(MOST, len(conversation["texts"]))
    found = []
    for question in conversation["questions"]:
        rows, _ = index.retrieve(bm25s.tokenize([question], **cut), k=most, show_progress=False)
        found.append([int(row) for row in rows[0]])
    return found


def of_chroma(conversation: Conversation) -> list[Ranking]:
    """Rank by Chroma, which compares vectors."""
    import chromadb  # type: ignore[import-not-found]

    texts, vectors = conversation["texts"], conversation["vectors"]
    kept = chromadb.EphemeralClient().create_collection(
        conversation["name"], metadata={"hnsw:space": "cosine"}
    )
    kept.add(ids=list(map(str, range(len(texts)))), embeddings=vectors, documents=texts)
    return [
        [
            int(found)
            for found in kept.query(
                query_embeddings=[vector], n_results=min(MOST, len(texts)), include=[]
            )["ids"][0]
        ]
        for vector in conversation["question_vectors"]
    ]


def of_lancedb(conversation: Conversation) -> list[Ranking]:
    """Rank by LanceDB's hybrid search with its own fusion."""
    import lancedb  # type: ignore[import-not-found]
    from lancedb.rerankers import RRFReranker  # type: ignore[import-not-found]

    pairs = zip(conversation["texts"], conversation["vectors"], strict=True)
    rows = [{"i": at, "text": text, "vector": vector} for at, (text, vector) in enumerate(pairs)]
    table = lancedb.connect(tempfile.mkdtemp()).create_table("t", rows)
    table.create_fts_index("text", replace=True)
    asked = zip(conversation["questions"], conversation["question_vectors"], strict=True)
    found = []
    for question, vector in asked:
        search = table.search(query_type="hybrid").vector(vector)
        search = search.text(re.sub(r"[^\w\s']", " ", question)).limit(MOST).rerank(RRFReranker())
        found.append([row["i"] for row in search.select(["i"]).to_list()])
    return found


def of_txtai(conversation: Conversation) -> list[Ranking]:
    """Rank by txtai's hybrid search in its default proportions."""
    import numpy as np
    from txtai import Embeddings  # type: ignore[import-not-found]

    vectors = _vectors(conversation)
    index = Embeddings(
        method="external",
        transform=lambda texts: np.stack([np.array(vectors[text], "float32") for text in texts]),
        content=True,
        scoring={"method": "bm25", "terms": True, "normalize": True},
    )
    index.index([(at, text, None) for at, text in enumerate(conversation["texts"])])
    return [
        [int(row["id"]) for row in index.search(question, limit=MOST)]
        for question in conversation["questions"]
    ]


def of_mms(conversation: Conversation) -> list[Ranking]:
    """Rank by mcp-memory-service's search by meaning; its hybrid takes half a second a question."""
    import pysqlite3  # type: ignore[import-not-found]

    # Its extension of SQLite cannot be loaded by most builds of Python.
    sys.modules["sqlite3"] = pysqlite3
    sys.modules["sqlite3.dbapi2"] = pysqlite3.dbapi2
    return asyncio.run(_mms(conversation))


async def _mms(conversation: Conversation) -> list[Ranking]:
    from mcp_memory_service.models.memory import Memory  # type: ignore[import-not-found]
    from mcp_memory_service.storage.sqlite_vec import (  # type: ignore[import-not-found]
        SqliteVecMemoryStorage,
    )
    from mcp_memory_service.utils.hashing import (  # type: ignore[import-not-found]
        generate_content_hash,
    )

    vectors, numbers = _vectors(conversation), dict[str, int]()
    store = SqliteVecMemoryStorage(str(Path(tempfile.mkdtemp()) / "m.db"), embedding_model="x")

    async def given() -> None:
        store.embedding_model, store.embedding_dimension = (
            object(),
            len(next(iter(vectors.values()))),
        )

    store._initialize_embedding_model = given  # noqa: SLF001 - its one place for an embedder
    store._generate_embedding = lambda text, *_, **__: vectors[text]  # noqa: SLF001
    await store.initialize()
    for at, text in enumerate(conversation["texts"]):
        name = generate_content_hash(text)
        numbers.setdefault(name, at)
        memory = Memory(content=text, content_hash=name, tags=[], memory_type="observation")
        await store.store(memory, skip_semantic_dedup=True)
    found = []
    for question in conversation["questions"]:
        rows = await store.retrieve(question, n_results=50)
        found.append([numbers[row.memory.content_hash] for row in rows])
    return found


def of_mem0(conversation: Conversation) -> list[Ranking]:
    """Rank by mem0 without a language model: its turns are kept as they are."""
    os.environ["OPENAI_API_KEY"] = "none"
    os.environ["MEM0_TELEMETRY"] = "False"
    os.environ["MEM0_DIR"] = tempfile.mkdtemp()
    from mem0 import Memory  # type: ignore[import-not-found]

    vectors, axes = _vectors(conversation), len(conversation["vectors"][0])
    where = {"path": tempfile.mkdtemp(), "embedding_model_dims": axes, "on_disk": True}
    memory = Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": {**where, "collection_name": "c"}},
            "embedder": {
                "provider": "openai",
                "config": {"api_key": "none", "embedding_dims": axes},
            },
            "history_db_path": str(Path(tempfile.mkdtemp()) / "h.db"),
        }
    )

    class Given:
        def embed(self, text: str, *_: object, **__: object) -> list[float]:
            return vectors[text]

        def embed_batch(self, texts: list[str], *_: object, **__: object) -> list[list[float]]:
            return [vectors[text] for text in texts]

    memory.embedding_model = Given()
    for at, text in enumerate(conversation["texts"]):
        said = [{"role": "user", "content": text}]
        memory.add(said, user_id="u", infer=False, metadata={"i": at})
    return [
        [
            row["metadata"]["i"]
            for row in memory.search(question, filters={"user_id": "u"}, top_k=MOST, threshold=0.0)[
                "results"
            ]
        ]
        for question in conversation["questions"]
    ]


def _vectors(conversation: Conversation) -> dict[str, list[float]]:
    known = dict(zip(conversation["texts"], conversation["vectors"], strict=True))
    known |= zip(conversation["questions"], conversation["question_vectors"], strict=True)
    return known | {text.strip(): vector for text, vector in known.items()}


PEERS: dict[str, Callable[[Conversation], list[Ranking]]] = {
    "fts5": lambda conversation: fts5(conversation, stop=False),
    "fts5_stop": lambda conversation: fts5(conversation, stop=True),
    "bm25s": of_bm25s,
    "chroma": of_chroma,
    "lancedb": of_lancedb,
    "txtai": of_txtai,
    "mms": of_mms,
    "mem0": of_mem0,
}


def main() -> None:
    """Answer what stands on standard input."""
    logging.disable(logging.CRITICAL)
    peer, given = PEERS[sys.argv[1]], json.load(sys.stdin)
    # What peers print must not get between the answers.
    out, sys.stdout = sys.stdout, sys.stderr
    json.dump([peer(conversation) for conversation in given], out)


if __name__ == "__main__":
    main()
