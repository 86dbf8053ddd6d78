"""Model tiers and the rules that choose between them."""

from dataclasses import dataclass, replace
from enum import StrEnum

from governor.effort import AnswerMode, Effort, EffortLevel, EffortStyle
from governor.ids import TierName
from governor.pricing import ModelPrice, PriceList


class Extra(StrEnum):
    """What a request may ask for that costs beyond the price of a tier's tokens."""

    SERVER_TOOLS = "server_tools"
    OTHER_MODELS = "other_models"
    COMPACTION = "compaction"
    STORED_PROMPT = "stored_prompt"
    FAST = "fast"
    PRIORITY = "priority"
    GEOGRAPHY = "geography"
    LONG_CONTEXT = "long_context"
    LONG_CACHE = "long_cache"
    AUDIO = "audio"
    PREDICTION = "prediction"


OPENAI_WIRES = ("openai_chat", "openai_responses", "openai_embeddings")


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTimes:
    """How long the parts of a call may take, where a tier says other than its provider."""

    whole_ms: int | None = None
    first_ms: int | None = None
    between_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTier:
    """A named cost/quality level: which model serves it and what it costs.

    `price` is None when nobody stated one; such a tier is refused, never counted as free.
    `price_version` names what the price is from: a price list, or the file that states it.
    `wires` are the wire formats that its provider speaks. `context_tokens_max` is how much the
    model can read, None where nobody stated it. `extras` are served though the price does not
    cover them. `fallback` are the tiers that are asked in its place when its provider fails;
    `asks_for_usage` tells that its provider can be asked for the usage of a stream, `output_caps`
    by which fields its output is bounded; none leaves that to the client.

    `tokenizer` is the file of the model's tokenizer. `hidden_reasoning` says whether it may write
    tokens that nobody is shown; None where that is not known. `image_tokens_max` is the most
    that one image takes; None leaves it to the provider's rule.
    `effort` and `mode` are what the tier is set to, `effort_style` and `effort_levels` how its
    model is told. `tools` are the only ones it is offered, None all of them; `examples` is the
    most worked examples that it is shown, None leaves the number to what they are worth.
    Where a budget pays for fewer than `output_tokens_min`, a call is denied; None is the usual.
    """

    name: TierName
    provider: str
    model: str
    price: ModelPrice | None
    output_tokens_max: int
    price_version: str = ""
    wires: tuple[str, ...] = OPENAI_WIRES
    context_tokens_max: int | None = None
    extras: frozenset[Extra] = frozenset()
    tokenizer: str | None = None
    hidden_reasoning: bool | None = None
    image_tokens_max: int | None = None
    effort: Effort | None = None
    effort_style: EffortStyle = EffortStyle.NONE
    effort_levels: tuple[EffortLevel, ...] = ()
    mode: AnswerMode | None = None
    tools: tuple[str, ...] | None = None
    examples: int | None = None
    output_tokens_min: int | None = None
    fallback: tuple[TierName, ...] = ()
    times: TierTimes = TierTimes()
    asks_for_usage: bool = True
    output_caps: tuple[str, ...] = ()

    def priced_by(self, prices: PriceList) -> "ModelTier":
        """Return the tier with its price: the one that it states itself, else the list's."""
        if self.price is not None:
            return self
        listed = prices.price_for(provider=self.provider, model=self.model)
        return replace(self, price=listed, price_version=prices.version)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierRule:
    """When `auto` means `tier`: every condition that is given must hold."""

    tier: TierName
    prompt_chars_min: int | None = None
    keywords: tuple[str, ...] = ()
    has_tools: bool | None = None

    def covers(self, request: "PromptFacts") -> bool:
        """Tell whether the rule's conditions hold for a prompt, whose text is in lower case."""
        if self.prompt_chars_min is not None and request.chars < self.prompt_chars_min:
            return False
        if self.has_tools is not None and self.has_tools != request.has_tools:
            return False
        return not self.keywords or any(word in request.text for word in self.keywords)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFacts:
    """What the tier rules look at; `text` is the last user message, whatever its case."""

    text: str
    chars: int
    has_tools: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TierChoice:
    """Which tier serves a request, with the reason.

    `mode` and `effort` are what whoever chose wants of it, None leaves them to the tier.
    """

    tier: ModelTier
    why: str
    mode: AnswerMode | None = None
    effort: float | None = None


def choose_tier(
    requested: str,
    tiers: tuple[ModelTier, ...],
    rules: tuple[TierRule, ...],
    facts: PromptFacts,
) -> TierChoice | None:
    """Return the tier for `requested`: a tier's name, `auto`, or a model's own name.

    `auto` takes the first rule that covers the prompt, else the first tier, which is the
    cheapest by convention. None means that nothing serves `requested`.
    """
    by_name = {tier.name: tier for tier in tiers}
    if requested == "auto":
        if any(rule.keywords for rule in rules):
            facts = replace(facts, text=facts.text.lower())
        for position, rule in enumerate(rules, start=1):
            if rule.covers(facts) and rule.tier in by_name:
                return TierChoice(tier=by_name[rule.tier], why=f"rule {position}")
        return TierChoice(tier=tiers[0], why="default tier") if tiers else None
    named = by_name.get(TierName(requested))
    if named is not None:
        return TierChoice(tier=named, why="named by the request")
    for tier in tiers:
        if tier.model == requested:
            return TierChoice(tier=tier, why="model named by the request")
    return None
