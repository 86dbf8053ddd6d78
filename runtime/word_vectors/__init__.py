"""The word vectors that are shipped with the package; `CARD.md` tells where they come from."""

from runtime.word_vectors.loading import WordVectorsError, vectors_if_any, word_vectors

__all__ = ["WordVectorsError", "vectors_if_any", "word_vectors"]
