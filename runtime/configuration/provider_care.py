"""The tables of `flyball.toml` about model providers that fail, refuse, or keep prompts warm."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Annotated, Literal, Protocol, Self

from pydantic import Field, model_validator

from governor.ids import TierName
from governor.providing.affinity import PromptCache
from governor.providing.key_ring import KeyTerms
from governor.retrying import RetryTerms
from governor.tiers import OPENAI_WIRES, TierTimes
from runtime.configuration.care import BreakerTable
from runtime.configuration.table import Flag, Name, Positive, Table
from runtime.model_gateway.attempts.care import CareTerms

KEYS_MAX = 64
OUTPUT_CAPS = ("max_completion_tokens", "max_tokens")
FALLBACKS_MAX = 8
_ANTHROPIC_WIRES = ("anthropic_messages",)
_LOCAL_WIRES = ("openai_chat", "openai_embeddings")
# What a server of a kind speaks where the file does not say.
WIRES = {"openai": OPENAI_WIRES, "anthropic": _ANTHROPIC_WIRES, "local": _LOCAL_WIRES}

Kind = Literal["openai", "anthropic", "local"]
Wire = Literal["openai_chat", "openai_responses", "openai_embeddings", "anthropic_messages"]
_Variable = Annotated[str, Field(min_length=1, max_length=256)]


class ProviderCareTable(Table):
    """How a model provider is treated."""

    kind: Kind = "openai"
    wires: Annotated[tuple[Wire, ...], Field(min_length=1)] | None = None
    stream_usage: Literal["ask", "never"] = "ask"
    output_cap: Literal["max_completion_tokens", "max_tokens", "both"] | None = None
    api_key_from: _Variable | None = None
    api_keys_from: Annotated[tuple[_Variable, ...], Field(max_length=KEYS_MAX)] = ()
    key_requests_per_minute: Positive | None = None
    key_tokens_per_minute: Positive | None = None
    timeout_ms: Positive = 120_000
    connect_ms: Positive = 10_000
    first_token_ms: Positive | None = None
    between_tokens_ms: Positive | None = None
    retries: Annotated[int, Field(strict=True, ge=0, le=10)] = 2
    repeat_when_unsure: Flag = False
    breaker: Literal["off"] | BreakerTable = BreakerTable()
    prompt_cache_s: Annotated[int, Field(strict=True, ge=0, le=86_400)] = 300

    @model_validator(mode="after")
    def _has_its_keys_once(self) -> Self:
        if self.api_key_from is not None and self.api_keys_from:
            raise ValueError("api_key_from and api_keys_from: give one of the two")
        again = [name for name in self.api_keys_from if self.api_keys_from.count(name) > 1]
        if again:
            raise ValueError(f"api_keys_from: {again[0]} appears twice")
        return self

    @property
    def key_names(self) -> tuple[str, ...]:
        """Return the variables that hold the keys."""
        return self.api_keys_from or (() if self.api_key_from is None else (self.api_key_from,))

    @property
    def spoken(self) -> tuple[str, ...]:
        """Return the wire formats that the provider speaks."""
        return WIRES[self.kind] if self.wires is None else self.wires

    @property
    def output_caps(self) -> tuple[str, ...]:
        """Return the fields that bound the output; none: the client's, else OpenAI's own."""
        # Local servers know one or the other, and pass over what they do not know.
        named = self.output_cap or ("both" if self.kind == "local" else None)
        if named == "both":
            return OUTPUT_CAPS
        return () if named is None else (named,)

    @property
    def care(self) -> CareTerms:
        """Return how the provider is treated."""
        names = self.key_names or ("",)
        return CareTerms(
            keys=tuple(
                KeyTerms(
                    name=name,
                    requests_per_minute=self.key_requests_per_minute,
                    tokens_per_minute=self.key_tokens_per_minute,
                )
                for name in names
            ),
            retry=RetryTerms(retries=self.retries),
            is_repeatable=self.repeat_when_unsure,
            # Anthropic keeps only what a request marks; the others keep prompts unasked.
            cache=PromptCache(
                life_ms=self.prompt_cache_s * 1000, is_automatic=self.kind != "anthropic"
            ),
        )


class TierCareTable(Table):
    """What a tier states about failures of its provider."""

    fallback: Annotated[tuple[Name, ...], Field(max_length=FALLBACKS_MAX)] = ()
    timeout_ms: Positive | None = None
    first_token_ms: Positive | None = None
    between_tokens_ms: Positive | None = None

    @property
    def fallbacks(self) -> tuple[TierName, ...]:
        """Return the tiers that are asked when this one fails, in order."""
        return tuple(map(TierName, self.fallback))

    @property
    def times(self) -> TierTimes:
        """Return how long the parts of a call may take, where the tier says so itself."""
        return TierTimes(
            whole_ms=self.timeout_ms,
            first_ms=self.first_token_ms,
            between_ms=self.between_tokens_ms,
        )


class NamedProvider(Protocol):
    """The table of a provider, as far as it matters here."""

    @property
    def name(self) -> str:
        """Return the provider's name."""
        ...

    @property
    def care(self) -> CareTerms:
        """Return how it is treated."""
        ...


class NamedTier(Protocol):
    """The table of a tier, as far as it matters here."""

    @property
    def name(self) -> str:
        """Return the tier's name."""
        ...

    @property
    def fallback(self) -> tuple[str, ...]:
        """Return the tiers that are asked when it fails."""
        ...


def cares_of(providers: Iterable[NamedProvider], *, between: int = 1) -> Mapping[str, CareTerms]:
    """Return how each provider is treated by one of `between` processes.

    What may pass by a key is divided between them, for none sees what the others send.
    """
    return {provider.name: _divided(provider.care, between) for provider in providers}


def _divided(care: CareTerms, between: int) -> CareTerms:
    return replace(
        care,
        keys=tuple(
            replace(
                key,
                requests_per_minute=_part(key.requests_per_minute, between),
                tokens_per_minute=_part(key.tokens_per_minute, between),
            )
            for key in care.keys
        ),
    )


def _part(limit: int | None, between: int) -> int | None:
    return None if limit is None else max(1, limit // between)


def check_fallbacks(tiers: Iterable[NamedTier]) -> None:
    """Refuse a fallback that is no tier, or that asks the same tier again.

    Raises:
        ValueError: there is one.
    """
    listed = tuple(tiers)
    names = {tier.name for tier in listed}
    for tier in listed:
        for at, name in enumerate(tier.fallback):
            if name not in names:
                raise ValueError(f"tier {tier.name}.fallback: no [[tier]] is called {name!r}")
            if name == tier.name or name in tier.fallback[:at]:
                raise ValueError(f"tier {tier.name}.fallback: {name!r} would be asked twice")
