"""Pure decisions about budgets, and the vocabulary that every other package shares."""
