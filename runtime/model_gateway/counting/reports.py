"""A provider's `usage` in each wire format, as one set of figures.

Only shapes are looked at here. Whether the figures can be true of a call is another question.
"""

from collections.abc import Mapping
from dataclasses import dataclass

# More than any model reads or writes for one request; what is above is a slip or a lie.
FIGURE_MAX = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """What a provider says that a call used; None is what it did not say, or in no figure.

    `input_tokens` are all of them, read from a cache or written to it included. `faults` names
    what stood where a figure is expected and is none. `covered_bytes` is how much had been
    written when it was said; None where that is all.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    faults: tuple[str, ...] = ()
    covered_bytes: int | None = None


class _Reader:
    """Reads figures out of strangers' JSON, and keeps the names of those that are none."""

    def __init__(self, raw: Mapping[str, object], faults: list[str], *, within: str = "") -> None:
        self._raw = raw
        self._within = within
        self.faults = faults

    def figure(self, name: str) -> int | None:
        """Return a whole number of tokens; None where there is none."""
        value = self._raw.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= FIGURE_MAX:
            self.faults.append(f"{self._within}{name}")
            return None
        return value

    def part(self, name: str) -> "_Reader":
        """Return the reader of an object within; an empty one where there is none."""
        value = self._raw.get(name)
        if value is not None and not isinstance(value, Mapping):
            self.faults.append(f"{self._within}{name}")
        within = value if isinstance(value, Mapping) else {}
        return _Reader(within, self.faults, within=f"{self._within}{name}.")


def openai_usage(raw: object) -> Reported | None:
    """Return what OpenAI's chat completions, responses or embeddings report; None: nothing.

    Chat says `prompt_tokens` and `completion_tokens`, responses `input_tokens` and
    `output_tokens`; embeddings write nothing and have a prompt alone.
    """
    read = _reader(raw)
    if read is None:
        return None
    if "input_tokens" in _mapping(raw):
        paid_in, written, details = "input_tokens", "output_tokens", "input_tokens_details"
    else:
        paid_in, written, details = "prompt_tokens", "completion_tokens", "prompt_tokens_details"
    input_tokens, output_tokens = read.figure(paid_in), read.figure(written)
    total = read.figure("total_tokens")
    if input_tokens is not None and total is not None:
        # Some providers count the tokens of hidden reasoning in the total alone.
        output_tokens = max(output_tokens or 0, total - input_tokens)
    of_input = read.part(details)
    return Reported(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cached_tokens=of_input.figure("cached_tokens") or 0,
        cache_write_tokens=of_input.figure("cache_write_tokens") or 0,
        faults=tuple(read.faults),
    )


def anthropic_usage(raw: object) -> Reported | None:
    """Return what Anthropic's messages report; None: nothing.

    There, `input_tokens` are only those that no cache has to do with.
    """
    read = _reader(raw)
    if read is None:
        return None
    fresh = read.figure("input_tokens")
    cached = read.figure("cache_read_input_tokens") or 0
    written = read.figure("cache_creation_input_tokens") or 0
    creation = read.part("cache_creation")
    short = creation.figure("ephemeral_5m_input_tokens") or 0
    hour = creation.figure("ephemeral_1h_input_tokens") or 0
    written = max(written, short + hour)
    return Reported(
        input_tokens=None if fresh is None else fresh + cached + written,
        output_tokens=read.figure("output_tokens"),
        cached_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=hour,
        faults=tuple(read.faults),
    )


def _reader(raw: object) -> _Reader | None:
    if raw is None:
        return None
    if not isinstance(raw, Mapping):
        return _Reader({"usage": raw}, ["usage"])
    return _Reader(raw, [])


def _mapping(raw: object) -> Mapping[str, object]:
    return raw if isinstance(raw, Mapping) else {}
