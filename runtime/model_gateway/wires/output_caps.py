"""The fields by which a chat completion's output is bounded: servers differ in which they know.

One that knows neither of those that it is sent writes as long as it likes, so a tier says which
ones are sent to its provider.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from governor.tiers import ModelTier
from runtime.model_gateway.wires.fields import is_whole_number

CAPS = ("max_completion_tokens", "max_tokens")
# llama.cpp reads this in the place of both.
_ITS_OWN = "n_predict"
_NAMED = re.compile("|".join(CAPS))
# A refusal of the field itself; one of its value would be met by the other field as well.
_UNKNOWN = re.compile(
    r"(?i)unsupported|not supported|unrecogni[sz]ed|unknown|unexpected|extra|not permitted"
)
_REFUSAL_BYTES_MAX = 16_384


def capped(fields: Mapping[str, Any], tier: ModelTier, bound: int) -> dict[str, int]:
    """Return the fields that bound the output of one choice, each at `bound` at the most."""
    asked = {name: fields[name] for name in CAPS if fields.get(name) is not None}
    own = fields.get(_ITS_OWN)
    if not is_whole_number(own) or own == 0:
        own = None
    least = min((*asked.values(), *(() if own is None else (own,))), default=bound)
    names = tier.output_caps or tuple(asked) or CAPS[:1]
    caps = {name: min(asked.get(name, least), bound) for name in names}
    return caps if own is None else {**caps, _ITS_OWN: min(own, bound)}


def without_caps(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request but for those that bound its output."""
    return {name: value for name, value in fields.items() if name not in {*CAPS, _ITS_OWN}}


def caps_instead(refusal: bytes, sent: Collection[str]) -> Sequence[str]:
    """Return the fields to bound the output by after a refusal; () where it is of none of them.

    The field that is named first is the one that is refused: the other may be named as the one
    to use.
    """
    text = refusal[:_REFUSAL_BYTES_MAX].decode(errors="replace")
    named = _NAMED.search(text)
    if named is None or named[0] not in sent or not _UNKNOWN.search(text):
        return ()
    return tuple(name for name in CAPS if name != named[0])
