"""Finding texts by words: terms, weighted fields and the fusion of rankings."""
