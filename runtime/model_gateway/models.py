"""What a client may name as its model, in one list that OpenAI's and Anthropic's clients read."""

from governor.tiers import ModelTier

AUTO = "auto"
OWNER = "flyball"


def models_served(tiers: tuple[ModelTier, ...]) -> dict[str, object]:
    """Return every name that chooses a tier: the tiers, `auto`, and the models behind them."""
    listed = _listed(tiers)
    names = list(listed)
    return {
        "object": "list",
        "data": list(listed.values()),
        # One page holds them all.
        "has_more": False,
        "first_id": names[0] if names else None,
        "last_id": names[-1] if names else None,
    }


def model_served(tiers: tuple[ModelTier, ...], name: str) -> dict[str, object] | None:
    """Return what the list says of one name; None where it is not in it."""
    return _listed(tiers).get(name)


def _listed(tiers: tuple[ModelTier, ...]) -> dict[str, dict[str, object]]:
    listed: dict[str, dict[str, object]] = {
        tier.name: _model(tier.name, kind="tier", tier=tier) for tier in tiers
    }
    if tiers:
        # `auto` wins over a tier of that name, here as in the choice itself.
        listed[AUTO] = _model(AUTO, kind="auto", tier=None)
    for tier in tiers:
        listed.setdefault(tier.model, _model(tier.model, kind="model", tier=tier))
    return listed


def _model(name: str, *, kind: str, tier: ModelTier | None) -> dict[str, object]:
    about: dict[str, object] = {"kind": kind}
    if tier is not None:
        price = tier.price
        about |= {
            "tier": tier.name,
            "model": tier.model,
            "wires": list(tier.wires),
            "output_tokens_max": tier.output_tokens_max,
            "price": None
            if price is None
            else {
                "input_microusd_per_mtok": price.input_microusd_per_mtok,
                "output_microusd_per_mtok": price.output_microusd_per_mtok,
                "cached_input_microusd_per_mtok": price.cached_input_microusd_per_mtok,
                "cache_write_microusd_per_mtok": price.cache_write_microusd_per_mtok,
                "cache_write_1h_microusd_per_mtok": price.cache_write_1h_microusd_per_mtok,
            },
        }
    # Nobody told when a tier was made; the official clients insist on a time.
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": OWNER,
        "type": "model",
        "display_name": name,
        "created_at": "1970-01-01T00:00:00Z",
        OWNER: about,
    }
