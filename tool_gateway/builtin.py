"""The built-in tools: memory, one's own budgets, turns, sub-sessions, other tools."""

import json
from collections.abc import Mapping

from governor.amounts import Amounts, Unit
from governor.call import CallStatus, Isolated, ToolCall
from governor.estimate import estimate_tool_call
from governor.ids import ToolName
from governor.limits import ExecutionLimits
from governor.policy import STATUS_TOOL, Policy
from governor.tracker import amount_words
from governor.turn_control import EXTEND_TOOL, Extended
from governor.turn_policy import TURNS_MAX
from governor.usage import OF_PROBES, OF_THE_MACHINE
from tool_gateway import shell
from tool_gateway.answering import ANSWER, ANSWER_DEFINITION, Taking, answered
from tool_gateway.books import Books
from tool_gateway.catalog import HOUSE, ToolEntry
from tool_gateway.discovery import definitions as discovery
from tool_gateway.discovery.answers import Answers
from tool_gateway.errors import LedgerOverloadedError, LedgerUnavailableError
from tool_gateway.memory import definitions as memory
from tool_gateway.memory.requests import integer
from tool_gateway.memory.tools import MemoryTools
from tool_gateway.ports import Meter, PolicySource
from tool_gateway.results import Outcome, ToolResult, text_block, text_result
from tool_gateway.spawning import CLOSE, DEFINITIONS, SPAWN, Spawning
from tool_gateway.turn_gate import TurnGate

MEMORY_READ = memory.READ
GOVERNOR_STATUS = STATUS_TOOL
GOVERNOR_EXTEND = ToolName(EXTEND_TOOL)
BUILTIN = HOUSE
REASON_CHARS_MAX = 500

_READ_ONLY = {"readOnlyHint": True, "idempotentHint": True, "openWorldHint": False}

ENTRIES = (
    memory.READ_ENTRY,
    ToolEntry(
        exposed=GOVERNOR_STATUS,
        original=GOVERNOR_STATUS,
        backend=BUILTIN,
        is_bounded=True,
        definition={
            "name": GOVERNOR_STATUS,
            "title": "What remains of the budgets",
            "description": (
                "Show every budget that this session is charged to: what remains, at what pace it "
                "goes, when it resets, and how thrifty to be; and the turns that are left. Free."
            ),
            "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
            "annotations": _READ_ONLY,
        },
    ),
    ToolEntry(
        exposed=GOVERNOR_EXTEND,
        original=GOVERNOR_EXTEND,
        backend=BUILTIN,
        is_bounded=True,
        definition={
            "name": GOVERNOR_EXTEND,
            "title": "Ask for more turns",
            "description": (
                "Ask for more turns when few are left and the task cannot be finished with them. "
                "They are given if the last turns brought something new and the budgets allow it."
            ),
            "inputSchema": {
                "type": "object",
                "properties": {
                    "reason": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": REASON_CHARS_MAX,
                        "description": "What the turns are for.",
                    },
                    "turns": {"type": "integer", "minimum": 1, "maximum": TURNS_MAX},
                },
                "required": ["reason"],
                "additionalProperties": False,
            },
            "annotations": {"readOnlyHint": False, "openWorldHint": False},
        },
    ),
    *(
        ToolEntry(
            exposed=ToolName(definition["name"]),
            original=ToolName(definition["name"]),
            backend=BUILTIN,
            is_bounded=True,
            definition=definition,
        )
        for definition in (*DEFINITIONS, *discovery.DEFINITIONS)
    ),
    *memory.ENTRIES,
)

# Offered only where a rule has a gate.
ANSWER_ENTRY = ToolEntry(
    exposed=ANSWER,
    original=ANSWER,
    backend=BUILTIN,
    is_bounded=True,
    definition=ANSWER_DEFINITION,
)
# No upstream may take one, shown or not: what they are known by is their name.
NAMES = frozenset(entry.exposed for entry in (*ENTRIES, ANSWER_ENTRY, *shell.LOCAL_ENTRIES))


class Builtins:
    """Runs the built-in tools inside the process."""

    name = BUILTIN
    unmeasurable: Mapping[Unit, str] = dict.fromkeys(
        (*OF_THE_MACHINE, *OF_PROBES), "it runs inside the sidecar"
    )

    def __init__(
        self,
        *,
        memories: MemoryTools,
        books: Books,
        turns: TurnGate,
        policy: PolicySource,
        spawning: Spawning,
        answers: Answers,
        taking: Taking | None = None,
    ) -> None:
        """Take the ports; `taking` takes answers to puzzles where rules have gates."""
        self._memories = memories
        self._books = books
        self._turns = turns
        self._policy = policy
        self._spawning = spawning
        self._answers = answers
        self._taking = taking

    def isolation_for(self, call: ToolCall, limits: ExecutionLimits) -> Isolated | None:
        """Return None: nothing local is started."""
        return None

    async def run(self, call: ToolCall, limits: ExecutionLimits, meter: Meter) -> Outcome:
        """Answer one of the built-in tools."""
        if call.tool in memory.NAMES:
            return await self._memories.run(call, meter)
        if call.tool == GOVERNOR_EXTEND:
            return await self._extend(call)
        if call.tool in (CLOSE, SPAWN):
            return await self._spawning.run(call)
        if call.tool in discovery.NAMES:
            return await self._answers.run(call)
        if call.tool == ANSWER:
            return await answered(call, self._taking)
        return await self._status(call)

    async def _status(self, call: ToolCall) -> Outcome:
        tracked = await self._books.tracked(call.chain)
        charged = await self._books.charged_to(call.chain)
        if tracked is None or charged is None:
            text = "The ledger does not answer; what remains cannot be said. Try again."
            return Outcome(
                result=text_result(text, is_error=True), status=CallStatus.TOOL_ERROR, detail=text
            )
        turns = await self._turns.standing(call.chain)
        unified = self._policy().unified.cost_microusd(charged)
        spent = {unit.value: amount for unit, amount in charged if amount}
        shape = {
            **tracked.as_json(),
            "turns": turns,
            "session": {"charged": spent, "unified_cost_microusd": unified},
        }
        return Outcome(
            result=ToolResult(
                content=(
                    text_block(json.dumps(shape, ensure_ascii=False)),
                    text_block(
                        f"{tracked.status(_holds(self._policy(), call))}\n{_turn_words(turns)}"
                        "Unified cost of this session so far: "
                        f"{amount_words(Unit.COST_MICROUSD, unified)}."
                    ),
                ),
                structured=shape,
            )
        )

    async def _extend(self, call: ToolCall) -> Outcome:
        asked = integer(call.arguments, "turns", 0) or None
        try:
            decision, turns = await self._turns.extend(
                call.chain, reason=str(call.arguments["reason"]), asked=asked
            )
        except (LedgerUnavailableError, LedgerOverloadedError):
            text = "The ledger does not answer; no turns were given. Try again."
            return Outcome(
                result=text_result(text, is_error=True), status=CallStatus.TOOL_ERROR, detail=text
            )
        if isinstance(decision, Extended):
            told: dict[str, object] = {"granted": True, "given": decision.turns, "turns": turns}
            text = f"{decision.turns} more turns were given; {turns['remaining']} remain."
        else:
            told = {"granted": False, "reason": decision.reason.value, "turns": turns}
            text = decision.text
        return Outcome(result=ToolResult(content=(text_block(text),), structured=told), detail=text)


def _holds(policy: Policy, call: ToolCall) -> dict[str, Amounts]:
    """Return what calls hold by their rules, for each tool that a rule names to this caller.

    Of a tool that runs elsewhere the machine's units are left out: who measures them is not
    known here.
    """
    chain, found = call.chain, dict[str, Amounts]()
    for rule in policy.rules:
        tool = ToolName(rule.match.tool)
        if "*" in tool or "?" in tool or tool in NAMES - set(shell.LOCAL_TOOLS):
            continue
        if policy.rule_for(tool=tool, tenant=chain.tenant, agent=chain.agent) is rule:
            blind = {} if tool in shell.LOCAL_TOOLS else Builtins.unmeasurable
            found[tool] = estimate_tool_call(
                rule, unmeasurable=blind, milliwatts_per_core=policy.milliwatts_per_core
            )
    return found


def _turn_words(turns: Mapping[str, object] | None) -> str:
    if turns is None:
        return ""
    return f"Turns: {turns['remaining']} of {turns['limit']} left.\n"
