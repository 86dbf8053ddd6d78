"""Model providers of a valid configuration: how each is treated, and what would not do as said."""

from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit

from governor.effort import EffortStyle
from governor.pricing import PriceList
from governor.tiers import ModelTier
from runtime.configuration.care import BreakerTable
from runtime.configuration.model import Config
from runtime.configuration.models import Provider, Tier
from runtime.doubts import Doubt
from runtime.errors import ConfigError
from runtime.model_gateway.model_request import WireName
from runtime.model_gateway.providers.spec import ProviderSpec
from runtime.model_gateway.translation.translation import translation_for
from runtime.settings import secret_from_environment, unset

_MICRO = 1_000_000


def told_of(provider: Provider) -> str:
    """Return how a provider is treated, in a line; of its keys the names of their variables."""
    parts = urlsplit(provider.base_url)
    keys = provider.key_names
    times = [
        f"{provider.timeout_ms} ms in all",
        *_stated("to connect", provider.connect_ms),
        *_stated("to the first token", provider.first_token_ms),
        *_stated("between tokens", provider.between_tokens_ms),
    ]
    breaker = provider.breaker
    return "; ".join(
        (
            f"{provider.kind} at {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}",
            f"speaks {', '.join(provider.spoken)}",
            f"keys from {', '.join(keys)}" if keys else "no key",
            f"at most {provider.retries} retries",
            ", ".join(times),
            f"left alone if {breaker.failures_percent} % of {breaker.calls_min} or more calls fail"
            if isinstance(breaker, BreakerTable)
            else "never left alone",
        )
    )


def doubts_about_providers(config: Config, specs: Sequence[ProviderSpec]) -> Iterator[Doubt]:
    """Yield what of the providers and of fallbacks would not do what the file says.

    `specs` are those whose keys are there.
    """
    tables = {provider.name: provider for provider in config.provider}
    for spec in specs:
        yield from _keys(tables[spec.name], spec)
    yield from _fallbacks(config)
    yield from _cache_prices(config)


def told_of_tier(tier: ModelTier, prices: PriceList) -> str:
    """Return what a tier is, in a line."""
    price = tier.priced_by(prices).price
    cost = "no price"
    if price is not None:
        paid_in = price.input_microusd_per_mtok / _MICRO
        paid_out = price.output_microusd_per_mtok / _MICRO
        cost = f"${paid_in:.6g} in and ${paid_out:.6g} out for a million tokens"
    return f"{tier.model} at {tier.provider}; {cost}; at most {tier.output_tokens_max} tokens out"


def doubts_about_tiers(
    config: Config, tiers: Sequence[ModelTier], prices: PriceList
) -> Iterator[Doubt]:
    """Yield the tiers whose calls are denied, or which do not do what the file says."""
    providers = {provider.name: provider for provider in config.provider}
    for table, tier in zip(config.tier, tiers, strict=True):
        what = f"tier {table.name}"
        if tier.priced_by(prices).price is None:
            yield Doubt(f"{what} price", f"every call is denied: {_wanting(table)}")
        if table.effort is not None and tier.effort_style is EffortStyle.NONE:
            told = (
                "its effort is told to nobody: set effort_style to what the provider "
                f"{providers[table.provider].name} understands"
            )
            yield Doubt(f"{what} effort", told)


def doubts_about_addresses(config: Config) -> Iterator[Doubt]:
    """Yield the addresses that lack the path under which such servers usually answer."""
    for provider in config.provider:
        if provider.kind == "openai" and not urlsplit(provider.base_url).path.strip("/"):
            told = (
                f"it has no path, so /chat/completions is asked at {provider.base_url}; such "
                "servers usually answer below /v1"
            )
            yield Doubt(f"provider {provider.name} base_url path", told)


def check_keys(config: Config) -> None:
    """Check that every variable of keys is set.

    Raises:
        ConfigError: some are not; all of them are named.
    """
    missing = [
        f"provider {provider.name}: {unset(name)}"
        for provider in config.provider
        for name in provider.key_names
        if secret_from_environment(name) is None
    ]
    if missing:
        raise ConfigError("\n".join(missing))


def _wanting(table: Tier) -> str:
    stated = (table.input_usd_per_mtok, table.output_usd_per_mtok)
    if stated == (None, None):
        return "it has no price; set input_usd_per_mtok and output_usd_per_mtok (0 is one too)"
    name = "output_usd_per_mtok" if stated[1] is None else "input_usd_per_mtok"
    return f"half a price is none; set {name} too"


def _stated(words: str, value_ms: int | None) -> list[str]:
    return [] if value_ms is None else [f"{value_ms} ms {words}"]


def _keys(provider: Provider, spec: ProviderSpec) -> Iterator[Doubt]:
    what = f"provider {provider.name}"
    if len(set(spec.keys)) < len(spec.keys):
        told = "two variables of api_keys_from hold the same key, which has its limits only once"
        yield Doubt(f"{what} keys", told)
    if spec.keys != (None,) and provider.base_url.startswith("http://") and not _is_local(provider):
        told = "its key is sent without encryption; use https://, or a server on this machine"
        yield Doubt(f"{what} base_url", told)


def _is_local(provider: Provider) -> bool:
    host = urlsplit(provider.base_url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _cache_prices(config: Config) -> Iterator[Doubt]:
    """Yield the tiers whose writes to a cache are charged below what their provider bills."""
    spoken = {provider.name: provider.spoken for provider in config.provider}
    for tier in config.tier:
        price = tier.price()
        is_told = price is None or price.cache_write_microusd_per_mtok is not None
        if WireName.ANTHROPIC_MESSAGES in spoken[tier.provider] and not is_told:
            told = (
                "what is written to its cache is charged at the price of input, and Anthropic "
                f"bills 1.25 times that: {_stated_write(tier)}"
            )
            yield Doubt(f"tier {tier.name} cache_write_usd_per_mtok", told)


def _stated_write(tier: Tier) -> str:
    assert tier.input_usd_per_mtok is not None, "a tier with a price states its input's"
    usd = (tier.input_usd_per_mtok * 5 / 4).normalize()
    return f'state cache_write_usd_per_mtok = "{usd:f}" in the tier, or what your contract says'


def _fallbacks(config: Config) -> Iterator[Doubt]:
    spoken = {provider.name: tuple(map(WireName, provider.spoken)) for provider in config.provider}
    wires = {tier.name: spoken[tier.provider] for tier in config.tier}
    for tier in config.tier:
        for name in tier.fallback:
            its, wanted = wires[name], wires[tier.name]
            if not any(wire in its or translation_for(wire, its) for wire in wanted):
                told = (
                    f"{name} is never asked in its place: it speaks {', '.join(its)}, and nothing "
                    f"of {', '.join(wanted)} is translated into that"
                )
                yield Doubt(f"tier {tier.name} fallback {name}", told)
