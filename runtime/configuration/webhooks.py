"""Where notices are sent, as `flyball.toml` says it."""

from collections.abc import Iterable
from typing import Annotated

from pydantic import BeforeValidator, Field, SecretStr, field_validator

from memory_store.notices import NoticeKind
from runtime.clock import SystemClock
from runtime.configuration.egress import EgressTable
from runtime.configuration.named_secrets import secret_named
from runtime.configuration.table import Name, Positive
from runtime.naming import Id
from runtime.webhook import Webhook, WebhookNotifier
from tool_gateway.upstreams.origin import origin_of

# What a single [webhook] without a name and kinds has always been sent.
FIRST_NAME = "webhook"
OF_BUDGETS = (NoticeKind.THRESHOLD, NoticeKind.WOULD_DENY)
WEBHOOKS_MAX = 16


class WebhookTable(EgressTable):
    """Where notices of some kinds are sent; what signs them comes from the environment."""

    name: Id = FIRST_NAME
    url: str
    secret_from: Name
    kinds: Annotated[tuple[NoticeKind, ...], Field(min_length=1)] = OF_BUDGETS
    timeout_ms: Positive = 10_000

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: str) -> str:
        if origin_of(value) is None:
            raise ValueError("expected an http:// or https:// address without a user in it")
        return value


# `[webhook]` is how a single one was written, and still may be.
WebhookTables = Annotated[
    tuple[WebhookTable, ...],
    BeforeValidator(lambda value: [value] if isinstance(value, dict) else value),
    Field(max_length=WEBHOOKS_MAX),
]


def webhooks_of(tables: Iterable[WebhookTable]) -> tuple[WebhookNotifier, ...]:
    """Return who is sent notices, each with the secret that the environment holds.

    Raises:
        ConfigError: a variable that the file names is not set.
    """
    return tuple(
        WebhookNotifier(
            Webhook(
                name=table.name,
                url=table.url,
                secret=SecretStr(secret_named(table.secret_from, "webhook.secret_from")),
                kinds=frozenset(table.kinds),
                timeout_ms=table.timeout_ms,
                reach=table.reach(),
            ),
            clock=SystemClock(),
        )
        for table in tables
    )
