"""How hard a model is asked to think, and the words that each kind of provider takes for it.

An effort is a fraction of what queries of one class usually take, as in e1 (Kleinman et al.,
2025): nobody needs to know how hard a question is to ask for half of the usual care. Providers
take levels or tokens instead, so a fraction is turned into whichever the tier names:

- `openai`: `reasoning_effort` of chat completions, `reasoning.effort` of responses;
- `gemini`: `reasoning_effort` too, which stands for 1,024, 8,192 and 24,576 tokens;
- `anthropic_budget`: `thinking.budget_tokens`, at least 1,024 and below `max_tokens`;
- `anthropic_effort`: `output_config.effort`, for the models that think as they see fit;
- `llama_cpp`: `chat_template_kwargs.enable_thinking` and `thinking_budget_tokens`;
- `vllm`: `chat_template_kwargs.enable_thinking` and `thinking_token_budget`;
- `qwen`: `enable_thinking` and `thinking_budget`, as Qwen's own service takes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, isfinite, log

from governor.errors import InvalidEffortError

FRACTION_MIN = 0.1
FRACTION_MAX = 4.0
# What is taken for usual where nothing was seen yet.
USUAL_TOKENS = 4096
BUDGET_TOKENS_MIN = 1024
# So that a fraction of nothing has a distance from others.
_NEAR_ZERO = 0.02
# A cap on all output is this many times what is expected, for it cuts the answer off too.
_CAP_PER_EXPECTED = 4
_ANSWER_TOKENS_MIN = 1024


class AnswerMode(StrEnum):
    """In which way a query is answered: at once, with thought, or with thought and tools."""

    INSTANT = "instant"
    REASONING = "reasoning"
    AGENTIC = "agentic"


class EffortLevel(StrEnum):
    """The words that providers have for efforts, the least first."""

    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
    MAX = "max"


class EffortStyle(StrEnum):
    """Which parameter a provider takes an effort in."""

    NONE = "none"
    OPENAI = "openai"
    GEMINI = "gemini"
    ANTHROPIC_BUDGET = "anthropic_budget"
    ANTHROPIC_EFFORT = "anthropic_effort"
    LLAMA_CPP = "llama_cpp"
    VLLM = "vllm"
    QWEN = "qwen"


_FRACTIONS = {
    EffortLevel.NONE: 0.0,
    EffortLevel.MINIMAL: 0.1,
    EffortLevel.LOW: 0.4,
    EffortLevel.MEDIUM: 1.0,
    EffortLevel.HIGH: 2.0,
    EffortLevel.XHIGH: 3.0,
    EffortLevel.MAX: 4.0,
}
# What every model behind a style takes; a tier whose model takes more lists its own.
_LEVELS = {
    EffortStyle.OPENAI: (EffortLevel.LOW, EffortLevel.MEDIUM, EffortLevel.HIGH),
    EffortStyle.GEMINI: (
        EffortLevel.NONE,
        EffortLevel.LOW,
        EffortLevel.MEDIUM,
        EffortLevel.HIGH,
    ),
    EffortStyle.ANTHROPIC_EFFORT: (EffortLevel.LOW, EffortLevel.MEDIUM, EffortLevel.HIGH),
}
_GEMINI_TOKENS = {
    EffortLevel.NONE: 0,
    EffortLevel.MINIMAL: 1024,
    EffortLevel.LOW: 1024,
    EffortLevel.MEDIUM: 8192,
    EffortLevel.HIGH: 24_576,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How hard to think: 0 is not at all, 1 is what this class of query usually takes.

    Raises:
        InvalidEffortError: the fraction is neither 0 nor within 0.1 and 4.
    """

    fraction: float

    def __post_init__(self) -> None:
        """Refuse what is no effort."""
        within = FRACTION_MIN <= self.fraction <= FRACTION_MAX
        if not isfinite(self.fraction) or not (within or self.fraction == 0):
            message = (
                f"an effort of {self.fraction} is neither 0 nor within "
                f"{FRACTION_MIN} and {FRACTION_MAX:g}"
            )
            raise InvalidEffortError(message)

    @classmethod
    def of(cls, level: EffortLevel) -> "Effort":
        """Return the effort that a provider's word stands for."""
        return cls(fraction=_FRACTIONS[level])


NO_EFFORT = Effort(fraction=0.0)
USUAL_EFFORT = Effort(fraction=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class EffortTarget:
    """An effort in the terms of one tier: a level, or tokens to think with; 0 is not at all.

    `output_tokens_max` is the cap on all output, thinking included, that goes with it. None
    leaves the cap as it was.
    """

    level: EffortLevel | None = None
    thinking_tokens: int | None = None
    output_tokens_max: int | None = None

    @property
    def is_off(self) -> bool:
        """Tell whether the model is asked not to think."""
        return self.thinking_tokens == 0 or self.level is EffortLevel.NONE


def effort_for(
    mode: AnswerMode | None, wished: Effort | None, *, usual: Effort | None
) -> Effort | None:
    """Return the effort that counts: what is wished, within what the mode allows.

    `usual` is the tier's own. An instant answer is given without thought, whatever the tier
    is set to; the other modes are not kept with an effort of nothing.
    """
    if mode is AnswerMode.INSTANT:
        return NO_EFFORT
    effort = wished or usual
    if mode is not None and (effort is None or effort == NO_EFFORT):
        return USUAL_EFFORT
    return effort


def levels_of(style: EffortStyle, listed: Sequence[EffortLevel]) -> tuple[EffortLevel, ...]:
    """Return the levels that a tier's model takes, the least first."""
    given = tuple(listed) or _LEVELS.get(style, ())
    return tuple(level for level in EffortLevel if level in given)


def nearest_level(effort: Effort, levels: Sequence[EffortLevel]) -> EffortLevel:
    """Return the level that is nearest to an effort in proportion; of two as near, the lower."""
    assert levels, "a style of levels has at least one"
    wanted = log(effort.fraction + _NEAR_ZERO)
    return min(levels, key=lambda level: abs(log(_FRACTIONS[level] + _NEAR_ZERO) - wanted))


def target_of(
    effort: Effort,
    *,
    style: EffortStyle,
    levels: Sequence[EffortLevel],
    usual_tokens: int | None,
    output_tokens_asked: int | None,
    output_tokens_max: int,
) -> EffortTarget | None:
    """Return an effort in a tier's terms; None where the tier has no parameter for it.

    `usual_tokens` is what the class takes on average, None where that is unknown;
    `output_tokens_asked` is the client's own cap and `output_tokens_max` the tier's. Whatever
    is thought comes on top of a client's cap, which is meant for the answer, within the tier's.
    """
    level: EffortLevel | None = None
    match style:
        case EffortStyle.NONE:
            return None
        case EffortStyle.OPENAI | EffortStyle.ANTHROPIC_EFFORT:
            level = nearest_level(effort, levels_of(style, levels))
            # Nobody says what a level takes, so a client's own cap stands as it is.
            expected = None if usual_tokens is None else ceil(_FRACTIONS[level] * usual_tokens)
            cap = None if output_tokens_asked else _cap(expected, output_tokens_max)
            return EffortTarget(level=level, output_tokens_max=cap)
        case EffortStyle.GEMINI:
            level = nearest_level(effort, levels_of(style, levels))
            thinking = _GEMINI_TOKENS[level]
        case _:
            usual = USUAL_TOKENS if usual_tokens is None else usual_tokens
            thinking = ceil(effort.fraction * usual)
            thinking = max(thinking, BUDGET_TOKENS_MIN) if effort.fraction else 0
    if output_tokens_asked is not None:
        cap = min(output_tokens_asked + thinking, output_tokens_max)
    else:
        expected = None if usual_tokens is None else max(usual_tokens, thinking)
        cap = _cap(expected, output_tokens_max)
    if level is not None:
        return EffortTarget(level=level, thinking_tokens=thinking, output_tokens_max=cap)
    return _within(thinking, cap or output_tokens_max, asked=output_tokens_asked)


def _cap(expected: int | None, most: int) -> int | None:
    """Return the cap on all output where so much is expected; None leaves it to the tier."""
    if expected is None:
        return None
    return min(_CAP_PER_EXPECTED * expected + _ANSWER_TOKENS_MIN, most)


def _within(thinking: int, cap: int, *, asked: int | None) -> EffortTarget:
    """Return a budget that leaves an answer its room below the cap; none where none fits."""
    answer = min(_ANSWER_TOKENS_MIN if asked is None else asked, cap // 2)
    thinking = min(thinking, cap - max(answer, 1))
    if thinking < BUDGET_TOKENS_MIN:
        return EffortTarget(thinking_tokens=0, output_tokens_max=min(asked or cap, cap))
    return EffortTarget(thinking_tokens=thinking, output_tokens_max=cap)
