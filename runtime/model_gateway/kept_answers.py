"""Answers of models that are kept, by policy, for requests that are made again word for word.

Off unless a policy says so. What is kept never leaves its tenant, or its agent; it lives for a
time, and in so much memory of this process. An answer that failed, was cut or is not whole is
not kept, and neither is one that the provider was asked to do more for than to answer.
"""

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256

import msgspec

from governor.ids import CallId
from governor.scope import ScopeChain
from governor.tiers import ModelTier
from runtime.model_gateway.model_request import ModelRequest, Payload, WireName

# What an entry takes beside its answer: its key, its place, its numbers.
_ENTRY_BYTES = 512
# Asking for these changes something at the provider, or depends on what is stored there.
_WITH_EFFECTS = (
    *("store", "background", "previous_response_id", "conversation", "prompt", "container"),
    *("mcp_servers", "web_search_options"),
)
_NOT_STORED = "no-store"
_ASKED_ANEW = "no-cache"


class Keeping(StrEnum):
    """Which answers are kept: none, those to a temperature of 0, or all."""

    OFF = "off"
    DETERMINISTIC = "deterministic"
    ALWAYS = "always"


class KeptFor(StrEnum):
    """Who gets a kept answer: the agent that asked first, or every agent of its tenant."""

    AGENT = "agent"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptPolicy:
    """Which answers are kept, for whom, how long, and how many at the most."""

    keeping: Keeping = Keeping.OFF
    kept_for: KeptFor = KeptFor.AGENT
    ttl_ms: int = 3_600_000
    entries_max: int = 1_000
    bytes_max: int = 64 * 1024 * 1024
    answer_bytes_max: int = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """A whole answer as the provider gave it: JSON, or the events of a stream."""

    content: bytes
    is_stream: bool
    call_id: CallId
    kept_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """What may be done for one request.

    `key` names its answer; `may_find` is whether it may be looked up. An answer that was allowed
    less than `output_tokens_wanted` is not kept.
    """

    key: str
    may_find: bool
    output_tokens_wanted: int


class KeptAnswers:
    """Keeps answers in the order of their last use; the least used go first."""

    def __init__(self, policy: KeptPolicy) -> None:
        """Begin with none."""
        self._policy = policy
        self._kept: OrderedDict[str, KeptAnswer] = OrderedDict()
        self._bytes = 0

    @property
    def answer_bytes_max(self) -> int:
        """Return how long an answer may be; while it is off, none is gathered."""
        return 0 if self._policy.keeping is Keeping.OFF else self._policy.answer_bytes_max

    def keep_for(
        self,
        request: ModelRequest,
        tier: ModelTier,
        chain: ScopeChain,
        *,
        path: str,
        cache_control: str | None,
    ) -> Keep | None:
        """Return what the answer to a request is kept under; None: it is not.

        `path` is what the provider is asked at: one wire has several, with the same requests.
        """
        asked = _directives(cache_control)
        if _NOT_STORED in asked or not self._is_kept(request):
            return None
        return Keep(
            key=_key(request, tier, chain, path=path, kept_for=self._policy.kept_for),
            may_find=_ASKED_ANEW not in asked,
            output_tokens_wanted=_output_wanted(request, tier),
        )

    def find(self, keep: Keep | None, *, now_ms: int) -> KeptAnswer | None:
        """Return the kept answer to a request, where there is one that is young enough."""
        if keep is None or not keep.may_find:
            return None
        found = self._kept.get(keep.key)
        if found is None:
            return None
        if not 0 <= now_ms - found.kept_at_ms < self._policy.ttl_ms:
            self._drop(keep.key)
            return None
        self._kept.move_to_end(keep.key)
        return found

    def keep(
        self,
        keep: Keep | None,
        content: bytes,
        *,
        payload: Payload,
        is_stream: bool,
        call_id: CallId,
        now_ms: int,
    ) -> None:
        """Keep the whole answer to `payload`, in the place of what was kept for its request.

        Where a budget allowed less output than was wanted, the answer may be cut, so it is not.
        """
        policy = self._policy
        if keep is None or len(content) > min(policy.answer_bytes_max, policy.bytes_max):
            return
        if payload.output_tokens_max < keep.output_tokens_wanted:
            return
        self._drop(keep.key)
        self._kept[keep.key] = KeptAnswer(
            content=content, is_stream=is_stream, call_id=call_id, kept_at_ms=now_ms
        )
        self._bytes += len(content) + _ENTRY_BYTES
        while len(self._kept) > policy.entries_max or self._bytes > policy.bytes_max:
            self._drop(next(iter(self._kept)))

    def _is_kept(self, request: ModelRequest) -> bool:
        fields = request.fields
        if self._policy.keeping is Keeping.OFF or request.extras or request.uncounted:
            return False
        if any(fields.get(name) not in (None, False) for name in _WITH_EFFECTS):
            return False
        if self._policy.keeping is Keeping.ALWAYS or request.wire is WireName.OPENAI_EMBEDDINGS:
            return True
        temperature = fields.get("temperature")
        return temperature == 0 and not isinstance(temperature, bool)

    def _drop(self, key: str) -> None:
        dropped = self._kept.pop(key, None)
        if dropped is not None:
            self._bytes -= len(dropped.content) + _ENTRY_BYTES


def _key(
    request: ModelRequest, tier: ModelTier, chain: ScopeChain, *, path: str, kept_for: KeptFor
) -> str:
    """Return the name of an answer: of who asks, whom, and for what, without what we add."""
    who = (chain.tenant, chain.agent if kept_for is KeptFor.AGENT else None)
    whom = (request.wire.value, path, tier.name, tier.provider, tier.model, tier.output_tokens_max)
    asked = {name: value for name, value in request.fields.items() if name != "model"}
    whole = msgspec.json.encode([who, whom, asked, dict(request.headers)], order="deterministic")
    return sha256(whole).hexdigest()


def _output_wanted(request: ModelRequest, tier: ModelTier) -> int:
    asked = request.output_tokens_asked
    most = tier.output_tokens_max if asked is None else min(asked, tier.output_tokens_max)
    return most * request.choices


def _directives(cache_control: str | None) -> frozenset[str]:
    """Return the words of a Cache-Control header, without their values."""
    words = (cache_control or "").lower().split(",")
    return frozenset(word.partition("=")[0].strip() for word in words)
