"""The front for model calls: OpenAI's wire format outside, budgets inside."""
