"""Which of a provider's figures are believed.

The provider's bill is what is paid, so its report counts wherever it can be true, also where it
is hard to believe. What cannot be true is settled by the next best source, which is never below
what was produced; the record says so. Per figure:

| reported | believed |
|---|---|
| nothing, no whole number, negative, beyond any model | no: counted |
| input 0, or above what the request can be | no: counted |
| output below what the text cannot be less than | no: counted |
| output that the text can be, with reasoning that is hidden what was held | yes |
| output, and more may have been written since | as the least: it, or more that is counted |
| output above what the text can be, at most what was held | yes, with a doubt |
| output above what was held, and the text can be it | yes: an overrun |
| output above both | yes, with a doubt, up to what any model writes: an overrun |
| the same, though the tier says that nothing is hidden | no: the larger of both |
| more cached, or written to a cache, than was read | the rebate is lost, the rest stands |
"""

from dataclasses import dataclass

from governor.tiers import ModelTier
from runtime.model_gateway.counting.output import tokens_bound, tokens_floor
from runtime.model_gateway.counting.reasoning import may_reason_hidden
from runtime.model_gateway.counting.reports import FIGURE_MAX, Reported
from runtime.model_gateway.counting.unreported import (
    input_counted,
    output_counted,
    tokenizer_of,
    unreported,
    weaker,
)
from runtime.model_gateway.measured import (
    NOTHING_GENERATED,
    Measured,
    Metered,
    Produced,
    UsageSource,
)
from runtime.model_gateway.model_request import Payload

NO_REPORT = "the provider reported no usage"
# No model writes more for one choice, hidden reasoning included.
OUTPUT_TOKENS_BELIEVED_MAX = 1 << 21


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """Everything that a figure is judged by."""

    produced: Produced | None
    payload: Payload
    tier: ModelTier
    is_whole: bool

    def is_stale(self, text: Produced, covered_bytes: int | None) -> bool:
        """Tell whether more may have been written since a report was made."""
        if covered_bytes is not None and covered_bytes < text.text_bytes:
            return True
        return not self.is_whole and may_reason_hidden(text, self.payload, self.tier)

    def hides(self, tokens: int, text: Produced) -> bool:
        """Tell whether so many tokens are no wonder: some of them are reasoning that is hidden."""
        is_held = tokens_floor(text) <= tokens <= self.payload.output_tokens_max
        return is_held and may_reason_hidden(text, self.payload, self.tier)

    def counted(self) -> tuple[int, UsageSource]:
        """Return the output tokens as far as they can be told without a report."""
        text = Produced() if self.produced is None else self.produced
        return output_counted(text, self.payload, self.tier, tokenizer_of(self.tier))


def believed(
    reported: Reported | None,
    produced: Produced | None,
    payload: Payload,
    tier: ModelTier,
    *,
    why: str = NO_REPORT,
    is_whole: bool = True,
) -> Metered:
    """Return what is settled of a call: each figure by the best source that can be true.

    `why` is said where nothing was reported; `is_whole` is false of a stream that was left before
    its end. `produced` is None where nobody looked at the text;
    then no output is doubted for it. A tokenizer is loaded where the tier names one and a figure
    is missing.
    """
    if payload.input_tokens_max == payload.output_tokens_max == 0:
        # It asks nothing of a model, so there is nothing to be billed.
        return NOTHING_GENERATED
    if reported is None:
        text = Produced() if produced is None else produced
        return unreported(text, payload, tier, why=why)
    call = _Call(produced=produced, payload=payload, tier=tier, is_whole=is_whole)
    doubts = [f"the provider's {name} is no number of tokens" for name in reported.faults]
    input_tokens, input_source = _input(reported, call, doubts)
    output_tokens, output_source = _output(reported, call, doubts)
    cached, written, hour = _cache(reported, input_tokens, input_source, doubts)
    return Measured(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=hour,
        source=weaker(input_source, output_source),
        doubt="; ".join(doubts),
    )


def is_believable(output_tokens: int | None, *, text_bytes_max: int, payload: Payload) -> bool:
    """Tell whether an output needs no look at the text, which has so many bytes at the most."""
    if output_tokens is None:
        return False
    if payload.output_tokens_max < output_tokens:
        return False
    return tokens_floor(Produced(text_bytes=text_bytes_max)) <= output_tokens <= text_bytes_max


def _input(reported: Reported, call: _Call, doubts: list[str]) -> tuple[int, UsageSource]:
    tokens, most = reported.input_tokens, call.payload.input_tokens_max
    if not call.payload.request.has_bounded_input:
        most = FIGURE_MAX
    if tokens is not None and 0 < tokens <= most:
        return tokens, UsageSource.PROVIDER
    if tokens is not None:
        doubts.append(f"the provider reported {tokens} input tokens, outside 1..{most}")
    elif not reported.faults:
        doubts.append("the provider reported no input tokens")
    return input_counted(call.payload, call.tier, tokenizer_of(call.tier))


def _output(reported: Reported, call: _Call, doubts: list[str]) -> tuple[int, UsageSource]:
    tokens, held = reported.output_tokens, call.payload.output_tokens_max
    if held == 0 and not tokens:
        return 0, UsageSource.PROVIDER
    if tokens is None:
        if not reported.faults:
            doubts.append("the provider reported no output tokens")
        return call.counted()
    if call.produced is None:
        return _without_text(tokens, held, doubts)
    return _judged(tokens, call, call.produced, reported.covered_bytes, doubts)


def _judged(
    tokens: int, call: _Call, text: Produced, covered_bytes: int | None, doubts: list[str]
) -> tuple[int, UsageSource]:
    """Return what is settled for a report on a text that is known."""
    if call.is_stale(text, covered_bytes):
        counted, source = call.counted()
        return max(tokens, counted), source
    bound = tokens_bound(text, call.payload)
    if tokens_floor(text) <= tokens <= bound or call.hides(tokens, text):
        return tokens, UsageSource.PROVIDER
    doubts.append(f"the provider reported {tokens} output tokens for {text.text_bytes} bytes")
    if tokens < bound:
        return call.counted()
    if _is_billable(tokens, call):
        return tokens, UsageSource.PROVIDER
    return max(call.payload.output_tokens_max, bound), UsageSource.HELD


def _without_text(tokens: int, held: int, doubts: list[str]) -> tuple[int, UsageSource]:
    if tokens <= max(held, OUTPUT_TOKENS_BELIEVED_MAX):
        return tokens, UsageSource.PROVIDER
    doubts.append(f"the provider reported {tokens} output tokens")
    return held, UsageSource.HELD


def _is_billable(tokens: int, call: _Call) -> bool:
    """Tell whether more tokens than the text can be may still stand on the provider's bill."""
    if tokens <= call.payload.output_tokens_max:
        return True
    if call.tier.hidden_reasoning is False:
        return False
    return tokens <= OUTPUT_TOKENS_BELIEVED_MAX * max(1, call.payload.request.choices)


def _cache(
    reported: Reported, input_tokens: int, source: UsageSource, doubts: list[str]
) -> tuple[int, int, int]:
    """Return what of the input was read from a cache, written to it, and written for an hour."""
    if source is not UsageSource.PROVIDER:
        return 0, 0, 0
    cached, written = reported.cached_tokens, reported.cache_write_tokens
    if written > input_tokens:
        doubts.append(f"the provider reported {written} tokens written to its cache")
        cached, written = 0, input_tokens
    elif cached + written > input_tokens:
        doubts.append(f"the provider reported {cached} cached input tokens")
        cached = 0
    return cached, written, min(reported.cache_write_1h_tokens, written)
