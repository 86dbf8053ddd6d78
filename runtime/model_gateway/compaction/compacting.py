"""A gateway that is given shorter conversations: what is old is kept, and an index stands there."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import sha256
from typing import Any, TypeVar

import anyio.to_thread

from governor.experience.workspace import READ_TOOL
from governor.scope import ScopeChain
from governor.tiers import ModelTier
from runtime.model_gateway.answer import Answer
from runtime.model_gateway.answering import Models
from runtime.model_gateway.compaction.chat import read_chat
from runtime.model_gateway.compaction.conversation import Conversation
from runtime.model_gateway.compaction.folding import (
    Folding,
    Owner,
    Shortened,
    folding_of,
    shortened,
)
from runtime.model_gateway.compaction.messages import read_messages
from runtime.model_gateway.compaction.plan import Plan, plan_of
from runtime.model_gateway.compaction.ports import ContentKeeper
from runtime.model_gateway.compaction.terms import CompactionTerms, terms_for
from runtime.model_gateway.compaction.told import Told
from runtime.model_gateway.model_request import Compacted, ModelRequest, WireName
from runtime.model_gateway.ports import Wishes
from runtime.model_gateway.replaying import NamedOutlet
from runtime.model_gateway.telemetry import count_compacted, count_left_whole
from runtime.model_gateway.wires.fields import encoded
from runtime.model_gateway.wires.wire import Wire
from tool_gateway.identity import CallContext
from tool_gateway.telemetry import count_failure

logger = logging.getLogger(__name__)

T = TypeVar("T")
Read = Callable[[Sequence[Mapping[str, Any]]], Conversation]

_MESSAGES = "messages"
# A larger conversation is looked at beside the loop, so that nobody waits for it.
_AT_ONCE_BYTES = 128 * 1024
# No text of fewer bytes than these has a token more.
_BYTES_PER_TOKEN_MIN = 2
_READERS: Mapping[tuple[WireName, str], Read] = {
    (WireName.OPENAI_CHAT, "/chat/completions"): read_chat,
    (WireName.ANTHROPIC_MESSAGES, "/messages"): read_messages,
}


class Compactor:
    """Makes requests shorter that are too long by the policy in force."""

    def __init__(
        self,
        keeper: ContentKeeper,
        *,
        policy: Callable[[], Sequence[CompactionTerms]],
    ) -> None:
        """Take who keeps what gives way, and the terms in force."""
        self._keeper = keeper
        self._policy = policy
        self._told = Told()

    async def compacted(
        self, request: ModelRequest, wire: Wire, *, chain: ScopeChain
    ) -> ModelRequest:
        """Return the request as it is to be answered, which may be as it came."""
        read = _READERS.get((request.wire, wire.path))
        terms = terms_for(self._policy(), model=request.model, agent=chain.agent)
        if read is None or terms is None:
            return request
        if request.body_bytes <= _BYTES_PER_TOKEN_MIN * terms.above_tokens:
            return request
        if terms.needs_reader and not _offers_reader(request.fields):
            return request
        messages: Sequence[Mapping[str, Any]] = request.fields[_MESSAGES]
        beside = request.body_bytes > _AT_ONCE_BYTES
        owner = Owner(tenant=chain.tenant, session=chain.session, key=_key_of(chain))
        found = await _done(partial(_looked_at, messages, read, terms, owner), beside=beside)
        if found is None:
            return request
        conversation, plan, folding = found
        kept = await self._keeper.keep(folding.keepsakes, chain=chain)
        make = partial(
            shortened,
            messages,
            conversation,
            plan,
            folding,
            kept=kept,
            terms=terms,
            owner=owner,
            told=self._told,
        )
        short = await _done(make, beside=beside)
        count_left_whole(short.left_whole)
        return _with(request, short, wire)


def _offers_reader(fields: Mapping[str, Any]) -> bool:
    """Tell whether the model can read what gave way; clients put names of their own before ours."""
    tools = fields.get("tools") or ()
    named = [tool.get("function") or tool for tool in tools if isinstance(tool, Mapping)]
    return any(
        str(about.get("name")).endswith(READ_TOOL) for about in named if isinstance(about, Mapping)
    )


def _looked_at(
    messages: Sequence[Mapping[str, Any]], read: Read, terms: CompactionTerms, owner: Owner
) -> tuple[Conversation, Plan, Folding] | None:
    """Return what is to give way of a conversation; None where nothing does."""
    conversation = read(messages)
    plan = plan_of(conversation, terms)
    if plan is None:
        return None
    return conversation, plan, folding_of(messages, conversation, plan, owner)


async def _done(work: Callable[[], T], *, beside: bool) -> T:
    """Return what `work` returns, which is done beside the loop where it takes its time."""
    return await anyio.to_thread.run_sync(work) if beside else work()


class Compacting:
    """A gateway before which long conversations are made shorter."""

    def __init__(self, models: Models, compactor: Compactor) -> None:
        """Take who answers, and who makes requests shorter."""
        self._models = models
        self._compactor = compactor

    @property
    def tiers(self) -> tuple[ModelTier, ...]:
        """Return what can be asked for, at its present price."""
        return self._models.tiers

    async def run(
        self,
        request: ModelRequest,
        wire: Wire,
        *,
        session_name: str,
        chain: ScopeChain,
        context: CallContext,
        outlet: NamedOutlet,
        wishes: Wishes,
    ) -> Answer | None:
        """Return the answer to a request, asked for with as little as will do."""
        try:
            short = await self._compactor.compacted(request, wire, chain=chain)
        except Exception:
            # It only saves: whatever is wrong with it, the conversation is answered whole.
            logger.exception("a conversation could not be compacted")
            count_failure("compaction")
            short = request
        return await self._models.run(
            short,
            wire,
            session_name=session_name,
            chain=chain,
            context=context,
            outlet=outlet,
            wishes=wishes,
        )


def _key_of(chain: ScopeChain) -> bytes:
    """Return what the marks in a session's report are made with.

    It has to be the same in each process and after each start, or a provider's cache of the
    prompt would be lost; nobody who writes into a conversation knows whose session it is.
    """
    return sha256(f"{chain.tenant}\0{chain.agent}\0{chain.session}".encode()).digest()


def _with(request: ModelRequest, short: Shortened, wire: Wire) -> ModelRequest:
    """Return a request with other messages, read anew: what it holds is another matter now."""
    if not short.results and not short.turns:
        return request
    count_compacted(tokens_saved=short.tokens_saved, results=short.results, turns=short.turns)
    fields = {**request.fields, _MESSAGES: short.messages}
    anew = wire.parse(encoded(fields), headers=request.headers)
    return replace(
        anew,
        # What the user asked for is what it was before a report was put to it.
        opening=request.opening,
        facts=replace(anew.facts, text=request.facts.text),
        compacted=Compacted(
            asked=request.fields,
            results=short.results,
            turns=short.turns,
            tokens_saved=short.tokens_saved,
        ),
    )
