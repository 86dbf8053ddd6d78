"""Which tier answers, how hard it thinks, in how many rounds, and what is learned of it."""
