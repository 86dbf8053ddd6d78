"""What Flyball must do, each behaviour under an id that the tests proving it cite.

`test_requirements.py` holds both directions: every id is cited by a test, every citation
names an id. The sources are the sections of the design: the invariants and the table "When
things go wrong" in `governor/README.md`, the shared interfaces, and the house rules.
"""

from dataclasses import dataclass

from tests.case_requirements import CASES
from tests.counting_requirements import COUNTING
from tests.domain_requirements import DOMAINS
from tests.enforcement_requirements import ENFORCEMENT
from tests.isolation_requirements import ISOLATION
from tests.lab_requirements import WITHSTOOD
from tests.memory_requirements import MEMORY
from tests.metering_requirements import METERING
from tests.model_requirements import MODELS
from tests.online_requirements import ROUTER
from tests.operate_requirements import OPERATE
from tests.os_ladder_requirements import LADDER
from tests.protocol_requirements import ALL_OF_MCP
from tests.provider_requirements import PROVIDERS
from tests.requirements_outside import OUTSIDE
from tests.requirements_workers import SHARED, WORKERS
from tests.router_requirements import LEARNED
from tests.run_requirements import RUNS
from tests.search_requirements import SEARCHED
from tests.stranger_requirements import INPUT, SAFETY
from tests.strategy_requirements import STRATEGIES
from tests.translation_requirements import TRANSLATION
from tests.upstream_requirements import UPSTREAM_CARE
from tests.wire_requirements import WIRES


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """One required behaviour and where it was promised."""

    says: str
    source: str


_INVARIANTS = "invariants"
_FAILURES = "when things go wrong"
_INTERFACES = "interfaces"
_INPUT = "bad input"
_SHARED = "several sidecars, one database"
_SESSIONS = "sub-sessions"
_WORKERS = "several workers, one sidecar"
_HOUSE = "house rules"
_PROOF = "the proof"
_PROTOCOL = "all of MCP"
_CONTENTION = "admission under contention"
_MANY_TOOLS = "too many tools"
_SAFETY = "safety that needs no model"
_ROUTER = "the router that learns"
_RUNS = "programs, servers and agents in domains"
_WITHSTOOD = "hostile calls"
_LEARNED = "the learned router"
_ENFORCEMENT = "what a rule withholds"
_OUTSIDE = "tokens and connections"
_ISOLATION = "isolation under pressure"

_CARE = "upstream care"
_COUNTING = "what model calls use"
_METERING = "metering in the kernel"
_LADDER = "the ladder"
_MEMORY = "experience memory"
_OPERATE = "operating it"
_MODELS = "the model gateway"
_WIRES = "clients of model providers"
_STRATEGIES = "answers in several rounds"
_TRANSLATION = "between wire formats"

_STATED: dict[str, dict[str, str]] = {
    _INVARIANTS: {
        "budget.never-overrun": (
            "At each Reserved, settled + reserved stays within the limit of every budget asked; "
            "settled never exceeds the limit by more than the recorded overruns."
        ),
        "reservation.ends-once": (
            "Every Reserved is ended by exactly one of Settled, Released, Expired."
        ),
        "balance.is-fold": "A balance equals the fold of its events.",
        "denial.changes-nothing": "A denial changes nothing.",
        "reservation.id-unique": "A reservation id is never reused.",
        "scope.child-within-parent": "A child scope's settled usage is within its parent's.",
        "process.none-outlives-call": "No process outlives its call's domain.",
        "process.none-outlives-sidecar": "Nothing outlives the sidecar that started it.",
    },
    _SESSIONS: {
        "budget.observe-denies-nothing": (
            "A budget that only observes denies nothing and notes what it would have denied."
        ),
        "budget.warns-once": "A threshold is told once, by the call that reaches it.",
        "notice.at-least-once": (
            "A notice is sent to the webhook, signed, until it is taken; a restart loses none."
        ),
        "sub-session.within-parent": (
            "A sub-session is carved out of its parent's remainder, never uses more, and gives "
            "the rest back when it is closed; closing a parent closes what is below it."
        ),
        "sub-session.running-keeps-its-hold": (
            "A call that runs when its sub-session is closed keeps its hold and settles."
        ),
    },
    _CARE: UPSTREAM_CARE,
    _COUNTING: COUNTING,
    _LADDER: LADDER,
    _WIRES: WIRES,
    _STRATEGIES: STRATEGIES,
    _MEMORY: MEMORY | CASES | SEARCHED,
    _OPERATE: OPERATE,
    _TRANSLATION: TRANSLATION,
    _PROTOCOL: ALL_OF_MCP,
    _FAILURES: {
        "limit.is-explained": (
            "A memory, process or time limit that ends a call is settled at the measured usage; "
            "the answer names the limit and the peak."
        ),
        "overrun.is-recorded": "Usage above the reservation is settled and recorded, not refused.",
        "upstream.refused-is-released": "A call that an upstream never received is released.",
        "upstream.timeout-is-settled": (
            "A call that times out is settled: measured where it can be, else at its estimate."
        ),
        "cancel.is-settled": "A cancelled call is settled: at measured usage, else its estimate.",
        "cancel.before-leaving-is-released": (
            "A call that provably never left is charged nothing, wherever it was stopped."
        ),
        "crash.forwarded-is-charged": "After a crash a forwarded hold is charged its estimate.",
        "crash.unforwarded-is-refunded": "After a crash a hold that never left is refunded.",
        "ledger.conservation": (
            "The books are added up every 10 s; a breach stops admission and says so, while "
            "settlements go through."
        ),
        "ledger.down-denies": "With the ledger down nothing starts: denial `ledger_unavailable`.",
        "ledger.down-at-settle-keeps-result": (
            "With the ledger down at settlement the result stands and the hold is left to the "
            "reaper."
        ),
        "archive.down-passes-result": "With the archive down the model gets the whole result.",
        "isolation.unavailable-denies": (
            "A command whose limits cannot be enforced is not run, unless the rule says so."
        ),
        "upstream.fault-is-contained": "A failing upstream harms no call beside the one it failed.",
        "upstream.wire-is-contained": (
            "On the short way to an upstream, too, a call is released only if provably nothing "
            "was sent, and an answer is bounded, whole and what the protocol allows."
        ),
        "front.short-way-same-answer": (
            "The short way in answers each request exactly as the SDK's front would."
        ),
        "front.gone-client-cancels": "A client that goes away takes its call back.",
        "upstream.comes-back": "An upstream that died is connected again.",
        "upstream.lines-are-bounded": "A stdio server whose line does not end is ended.",
        "upstream.idle-rests": "An unused server is stopped, and started by the next call.",
        "upstream.hung-is-restarted": "A server that answers no health check is restarted.",
    },
    _INTERFACES: {
        "denial.shape": (
            "A denial is an isError result whose _meta carries the reason, the short budget's "
            "integers, when it resets, and a remedy; the same JSON stands in one text block."
        ),
        "denial.narrowest-first": "Of several short budgets the narrowest scope leads.",
        "denial.remedy-helps": "A remedy names something that can work.",
        "budget.all-or-none": "Every budget of the chain holds its part, or none is touched.",
        "budget.remaining-is-shown": "A result says what remains of each budget.",
        "budget.share-and-pace-are-shown": (
            "A result says which share of each budget is left and at what pace it goes."
        ),
        "budget.line-is-short": (
            "Where the policy wants it, a line below 200 characters tells the model what remains."
        ),
        "budget.note-is-counted": (
            "A note to a chat's model is part of what is estimated and none of what is answered."
        ),
        "loop.trips-at-its-count": (
            "A loop meets each measure (remind, serve, deny, pause) at exactly its count."
        ),
        "loop.progress-is-none": "A changed result is progress and never a loop.",
        "loop.served-costs-nothing": (
            "A call that is served an earlier result runs nothing and charges nothing."
        ),
        "loop.pause-stops-session": "A session that is paused starts no call until it is resumed.",
        "cost.unified-beside-parts": (
            "A unified cost (money, a price per tool call and per CPU-second) stands beside its "
            "parts and is no budget's unit."
        ),
        "context.tokens-are-counted": (
            "What goes back to the model is charged in context tokens, held before the call."
        ),
        "energy.is-an-estimate": "Energy is processor time at a configured draw, and says so.",
        "books.reconcile": (
            "What the call records were charged is what the balances settled, unit by unit."
        ),
        "turn.unknown-denies": "A turns budget denies a call whose turn is unknown.",
        "turns.limit-denies": "The turn beyond a session's limit is denied with a way out.",
        "turns.reminder-is-shown": "The model is told what remains at the counts that are set.",
        "turns.percentile-of-own-history": (
            "A percentile limit covers that share of the class's finished sessions."
        ),
        "turns.extension-needs-progress": "Without visible progress no turns are added.",
        "turns.extension-within-budget": "No extension goes beyond budgets or its own bounds.",
        "turns.survive-a-restart": "Turns, extensions and progress are known after a restart.",
        "session.outcome-is-kept": "An agent reports how its own session went, and it is kept.",
        "eval.live-turns": "Turn limits are compared with a real model within a cap on cost.",
        "metrics.productivity": (
            "Useful, redundant and solved are counted by session, agent, tool and task class."
        ),
        "turn.first-call-pays": "The first call of a turn pays for it, the later ones ride.",
        "unit.unmeasurable-denies": "A budget on a unit that nobody can measure denies.",
        "governor-tools.are-free": (
            "governor_status is always answered and costs nothing; the governor's other tools are "
            "charged only by a rule that names them. Asking again is no loop."
        ),
        "session.frozen-sends-nothing": (
            "Nothing leaves for a session that was frozen while its call waited or paused."
        ),
        "session.closed-denies": "A closed session admits nothing; its running calls are stopped.",
        "approval.asks-before-running": (
            "A rule that asks a person holds the estimate and runs the call only after a yes."
        ),
        "approval.used-once": (
            "A yes runs one call with exactly the arguments that were asked about, whoever retries."
        ),
        "approval.no-is-released": (
            "A no, a question that ran out and a client that went away free what was held."
        ),
        "approval.no-reaches-who-asked": (
            "A no that nobody waited for is what the same call is told as long as the question "
            "could have stood; only then is a person asked again."
        ),
        "approval.first-answer-stands": "The first answer to a question stands; others are 409.",
        "approval.outlives-restart": "A question and its hold outlive the process that asked.",
        "price.unknown-is-ceiling-or-refused": (
            "A model that nobody priced is charged at the configured ceiling, else refused."
        ),
        "price.list-replaced-live": (
            "A price list that an administrator puts prices the next call, without a restart; a "
            "call that runs keeps the price that it was held by."
        ),
        "price.list-survives": "A list that was put outlives restarts and wins over the file.",
        "price.list-shared": (
            "Where sidecars share a database, a list that is put at one is in force at the others "
            "within two seconds."
        ),
        "price.list-audited": "Each change of the list is audited with both versions.",
        "price.version-is-kept": (
            "The version on a call's record can be looked up after the list was replaced."
        ),
        "price.cached-input": (
            "Input that the provider had cached costs its own price where both are known; what "
            "cannot be true brings no rebate."
        ),
        "cost.reported-only-if-trusted": (
            "A cost that a tool reports is charged only for upstreams that the policy trusts; "
            "what is no amount is ignored and counted."
        ),
        "session.frozen-denies": "A frozen session admits nothing and holds nothing anew.",
        "session.frozen-stands-still": (
            "The local commands of a frozen session stand still, their time limits too, and go on "
            "where they were."
        ),
        "idempotency.same-replays": "The same key and payload give the stored outcome.",
        "idempotency.other-conflicts": "The same key with another payload is a conflict.",
        "context.header-wins": "Session, turn and key come from headers before `_meta`.",
        "tool-name.is-safe": (
            "Exposed names match ^[A-Za-z0-9_-]{1,64}$ and are stable; two tools never share one."
        ),
        "archive.byte-exact": "The ranges of an archived result, joined, are the result.",
        "record.hides-secrets": "A call record keeps no credential.",
        "nothing-leaves": "Nothing leaves the machine that the operator did not ask for.",
        "price.never-favours-caller": "Prices round up; an unpriced model is refused, not free.",
    },
    _INPUT: INPUT,
    _WORKERS: WORKERS,
    _SHARED: SHARED,
    _PROOF: {
        "proof.no-overspend": (
            "However many clients spend at once, a provider never gives a unit above any budget."
        ),
        "proof.overspend-is-overrun": (
            "What clients spend beyond their holds is the sum of the recorded overruns, exactly."
        ),
        "proof.kill-loses-nothing": (
            "SIGKILL at any instant loses no acknowledged word, charges nothing twice and leaks "
            "no hold."
        ),
        "proof.replicas-take-over": (
            "Replicas on one hot budget are killed in turn, and whoever asks another with the same "
            "key finds nothing lost, nothing above the budget and nothing charged twice."
        ),
        "proof.database-restarts": (
            "A database server that is restarted in the middle of its work loses nothing "
            "acknowledged, and the processes that use it go on."
        ),
        "proof.simulation": (
            "Whatever is lost, late, unsaid, cancelled or stepped on the path of a call, nothing "
            "is used for free, run twice under one key or left held."
        ),
        "proof.model-agrees": "Random histories agree with a reference that keeps no balance.",
        "proof.any-operation-may-fail": (
            "Whichever database operation fails, and however, what was asked is done once or not "
            "at all, and the process goes on."
        ),
        "proof.full-disk": "A full disk loses nothing acknowledged; with room again work goes on.",
        "proof.clock-steps": (
            "A clock that jumps while holds are live ends none of them twice and opens no window "
            "a second time, wherever it stands afterwards."
        ),
        "proof.stalled-disk": (
            "While a disk does not answer nobody is told that anything is stored; once it does, "
            "what was accepted is done and work goes on."
        ),
        "proof.read-only-disk": (
            "While a disk cannot be written nothing is admitted or leaves and nothing that was "
            "said is undone; once it can be, work goes on."
        ),
        "proof.finds-seeded-bugs": "Each seeded bug makes the proof fail that must find it.",
    },
    _CONTENTION: {
        "contention.nobody-starves": (
            "Whoever waits for an upstream is passed by a bounded number of others, whatever "
            "those ask for, and keeps a place in the queue against whoever holds more."
        ),
        "contention.max-min-fair": (
            "What is scarce is divided max-min fair by weight, in whole units and exactly."
        ),
        "contention.queues-are-bounded": (
            "No queue holds more than its bounds; who is kept out is told."
        ),
        "contention.commons-within-quota": "A commons is never drawn on faster than its quota.",
        "contention.pressure-sheds": "Under pressure of the machine the lower priorities give way.",
        "contention.no-hold-waits": "A call that waits for its turn holds nothing of any budget.",
        "contention.deadline-is-kept": (
            "A call that cannot start before its deadline is refused, with when to try again."
        ),
    },
    _MANY_TOOLS: {
        "tools.only-allowed-are-found": (
            "Searches and descriptions show only what the policy allows to the caller, and tell "
            "nothing of the rest."
        ),
        "tools.call-is-governed-alike": (
            "A tool that is called by name through tools_call meets the rule, the budgets and the "
            "record that it would meet if it were called by itself."
        ),
        "tools.list-is-cut-by-relevance": (
            "A list beyond its bound is cut to what the session is about, else to what helped "
            "before; what is kept stays, and the order is the same again."
        ),
        "tools.learned-from-success": (
            "The words of a search lead to a tool that it found once that was called with success."
        ),
        "tools.learned-per-tenant": (
            "What is learned of past use is bounded and never reaches another tenant."
        ),
        "retrieval.shipped-vectors": (
            "Word vectors are shipped with the package and described by a card that names their "
            "hash; a text has the same vector everywhere, tools are found by meaning where no word "
            "is shared, and without the file words alone decide."
        ),
        "eval.tools": (
            "Tool search is measured per step over files of tools and requests; a fault names its "
            "file and line."
        ),
    },
    _METERING: METERING,
    _OUTSIDE: OUTSIDE,
    _ISOLATION: ISOLATION,
    _SAFETY: SAFETY,
    _ROUTER: ROUTER,
    _RUNS: {**RUNS, **DOMAINS},
    _MODELS: MODELS | PROVIDERS,
    _WITHSTOOD: WITHSTOOD,
    _LEARNED: LEARNED,
    _ENFORCEMENT: ENFORCEMENT,
    _HOUSE: {
        "package.exactly-five": "The wheel's top level is the five packages and nothing else.",
        "package.one-command": "The installation brings one command, flyball, usable anywhere.",
        "package.no-bcc": "The registry's unrelated package bcc is never a dependency.",
        "governor.is-pure": "State machines are tables; decisions are functions of their values.",
    },
}

REQUIREMENTS: dict[str, Requirement] = {
    name: Requirement(says=says, source=source)
    for source, stated in _STATED.items()
    for name, says in stated.items()
}

# Promised and not yet proven. The list only shrinks: citing an id that stands here fails.
PENDING = frozenset[str]()
