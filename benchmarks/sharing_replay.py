"""Recorded runs of the same tasks, side by side, and the tool calls that one bank saves them.

The runs of a task go on at once, a call of each in turn. Before a call that only reads, a run looks
in the bank of its task for the same tool with the same arguments. Each recorded run has a world of
its own, so what a run found is held against what the other one got in fact: where they differ, the
bank would have misled it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from benchmarks.sharing_workload import Bank
from governor.experience.kinds import ExperienceKind, TrustLane
from governor.experience.sharing import Admission, Entry, EntryCredit, EntryOutcome, Offer
from governor.ids import ExperienceId, PrincipalId

_READS = ("get_", "search_", "list_", "calculate")
_CHARS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """One recorded tool call; `key` is its tool and its arguments in one order."""

    tool: str
    key: str
    answer: str

    @property
    def only_reads(self) -> bool:
        """Tell whether it changes nothing."""
        return self.tool.startswith(_READS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One recorded run of a task, and whether it went well."""

    task: str
    trial: int
    succeeded: bool
    uses: tuple[ToolUse, ...]


@dataclass(slots=True, kw_only=True)
class Replay:
    """What came of a replay; `tokens` are those of answers that no tool had to be asked for."""

    calls: int = 0
    reads: int = 0
    repeated: int = 0
    saved: int = 0
    differed: int = 0
    tokens: int = 0
    offered: int = 0
    entered: int = 0
    of_use: int = 0


@dataclass(slots=True, kw_only=True)
class _Held:
    """An answer that somebody got, and what became of it in the bank."""

    writer: PrincipalId
    answer: str
    admission: Admission | None
    credit: EntryCredit
    is_shared: bool


def runs_of(path: Path) -> list[Run]:
    """Return the recorded runs of a file of tau-bench trajectories."""
    return [
        Run(
            task=str(one["task_id"]),
            trial=int(one["trial"]),
            succeeded=float(one["reward"]) >= 1.0,
            uses=tuple(_uses_of(one["traj"])),
        )
        for one in json.loads(path.read_text())
    ]


def _uses_of(messages: Sequence[Mapping[str, Any]]) -> Iterator[ToolUse]:
    answers = {
        one["tool_call_id"]: str(one["content"]) for one in messages if one["role"] == "tool"
    }
    for message in messages:
        for call in message.get("tool_calls") or ():
            if call["id"] not in answers:
                continue
            arguments = json.loads(call["function"]["arguments"])
            name = call["function"]["name"]
            key = f"{name} {json.dumps(arguments, sort_keys=True)}"
            yield ToolUse(tool=name, key=key, answer=answers[call["id"]])


def replayed(runs: Sequence[Run], bank: Bank) -> Replay:
    """Return what a bank for each task saves; what is learned goes on from task to task."""
    total = Replay()
    for task in dict.fromkeys(run.task for run in runs):
        _Task([run for run in runs if run.task == task], bank, total).run()
    return total


class _Task:
    """The runs of one task, a call of each in turn."""

    def __init__(self, runs: Sequence[Run], bank: Bank, total: Replay) -> None:
        self._runs = runs
        self._bank = bank
        self._total = total
        self._held: dict[str, list[_Held]] = {}

    def run(self) -> None:
        own: list[set[str]] = [set() for _ in self._runs]
        for uses in zip_longest(*(run.uses for run in self._runs)):
            for at, use in enumerate(uses):
                if use is None:
                    continue
                self._total.calls += 1
                if not use.only_reads:
                    # What this run changed, the others' answers no longer say of its world.
                    own[at].clear()
                    continue
                self._total.reads += 1
                self._read(self._runs[at], use, own[at])
                own[at].add(use.key)
        held = [one for found in self._held.values() for one in found]
        usages = tuple(
            EntryOutcome(
                context=one.admission.context,
                writer=one.writer,
                entered=one.admission.entry is Entry.ENTERS,
                credit=one.credit,
            )
            for one in held
            if one.admission is not None and one.admission.entry is not Entry.LINKED
        )
        self._total.of_use += sum(one.credit.helped > 0 for one in held if one.is_shared)
        self._bank.learn(usages)

    def _read(self, run: Run, use: ToolUse, own: set[str]) -> None:
        reader = PrincipalId(f"trial-{run.trial}")
        others = [one for one in self._held.get(use.key, ()) if one.writer != reader]
        self._total.repeated += bool(others)
        shared = next((one for one in reversed(others) if one.is_shared), None)
        if shared is not None and use.key not in own:
            is_same = shared.answer == use.answer
            self._total.saved += is_same
            self._total.differed += not is_same
            self._total.tokens += len(use.answer) // _CHARS_PER_TOKEN * is_same
            shared.credit = _more(shared.credit, helped=is_same, failed=not is_same)
            return
        for one in others:
            if not one.is_shared and one.answer == use.answer:
                one.credit = _more(one.credit, redone=True)
        self._offer(reader, use, others)

    def _offer(self, writer: PrincipalId, use: ToolUse, others: Sequence[_Held]) -> None:
        self._total.offered += 1
        offer = Offer(
            experience=ExperienceId(f"exp_{use.key}_{self._total.offered}"),
            writer=PrincipalId(use.tool),
            kind=ExperienceKind.TOOL_RESULT,
            lane=TrustLane.TOOL,
            novelty=0.0 if any(one.is_shared for one in others) else 1.0,
            tokens=len(use.answer) // _CHARS_PER_TOKEN,
            bank_items=sum(one.is_shared for found in self._held.values() for one in found),
        )
        admission = self._bank.admits(offer)
        is_shared = admission is not None and admission.entry is Entry.ENTERS
        self._total.entered += is_shared
        self._held.setdefault(use.key, []).append(
            _Held(
                writer=writer,
                answer=use.answer,
                admission=admission,
                credit=EntryCredit(),
                is_shared=is_shared,
            )
        )


def _more(
    credit: EntryCredit, *, helped: bool = False, failed: bool = False, redone: bool = False
) -> EntryCredit:
    return EntryCredit(
        helped=credit.helped + helped,
        failed=credit.failed + failed,
        unread=credit.unread,
        redone=credit.redone + redone,
    )
