"""`flyball doctor`: what this host can enforce, and whether the configuration works."""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from ebpf.abilities import CapabilityState
from ebpf.capability import Capability
from runtime.cli.showing import Cell, Tone, folding, heading, note, stages, table, words
from runtime.examination import Examination, examine
from runtime.findings import Mark
from runtime.settings import Settings

# The further lines of a finding stand under the beginning of its first.
_NEXT_LINE = "\n" + " " * 7


_STATES = {
    CapabilityState.ENFORCED: Tone.GOOD,
    CapabilityState.OBSERVED: Tone.WARN,
    CapabilityState.ABSENT: Tone.FAINT,
}
_MARKS = {Mark.OK: Tone.GOOD, Mark.WARNING: Tone.WARN, Mark.BAD: Tone.BAD}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what its statuses mean."""
    parser.epilog = (
        "Nothing is changed, and a sidecar may run meanwhile. Status 0: everything works, 1: "
        "something is marked BAD."
    )


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the examination; return 0 if everything works, 1 otherwise."""
    with stages("Looking at this host, its kernel and the configuration"):
        examination = examine(settings)
    if arguments.json:
        sys.stdout.write(json.dumps(examination.shape()) + "\n")
    else:
        sys.stdout.write(_tables(examination) if sys.stdout.isatty() else _text(examination))
    return 0 if examination.is_ok else 1


def _tables(examination: Examination) -> str:
    """Return the examination as a terminal shows it."""
    able = [
        (
            one.name,
            Cell(text=one.state.value, tone=_STATES[one.state]),
            one.by or "-",
            one.why or "",
        )
        for one in examination.capabilities
    ]
    found = [
        (Cell(text=one.mark.value, tone=_MARKS[one.mark]), one.what, told)
        for one in examination.findings
        for told in one.told.splitlines()
    ]
    end = note(_verdict(examination), tone=_MARKS[_worst(examination)])
    return "\n".join(
        (
            heading("What this host can enforce"),
            table((*words("what", "state"), folding("by"), folding("why")), able, none=""),
            heading("Configuration and installation"),
            table((*words(""), folding("what"), folding("told")), found, none=""),
            end,
        )
    )


def _worst(examination: Examination) -> Mark:
    if not examination.is_ok:
        return Mark.BAD
    marks = {finding.mark for finding in examination.findings}
    return Mark.WARNING if Mark.WARNING in marks else Mark.OK


def _verdict(examination: Examination) -> str:
    """Return what is left to do, in a sentence."""
    worst = _worst(examination)
    if worst is Mark.BAD:
        return "Mend what is marked BAD."
    if worst is Mark.WARNING:
        return f"Everything works; look at what is marked {worst.value}."
    return "Everything works."


def _text(examination: Examination) -> str:
    lines = ["What this host can enforce:", *_capability_lines(examination.capabilities)]
    lines.append("")
    lines.append("Configuration and installation:")
    lines.extend(
        f"  {finding.mark.value:<5}{finding.what}: " + finding.told.replace("\n", _NEXT_LINE)
        for finding in examination.findings
    )
    lines.append("")
    lines.append(_verdict(examination))
    return "\n".join(lines) + "\n"


def _capability_lines(capabilities: Sequence[Capability]) -> Iterator[str]:
    """Yield a line for each capability, then once each reason that several of them share."""
    reasons = [capability.why.split("; ") if capability.why else [] for capability in capabilities]
    counts = Counter(reason for own in reasons for reason in own)
    shared = [reason for reason, count in counts.items() if count > 1]
    width = max((len(capability.name) for capability in capabilities), default=0)
    for capability, own in zip(capabilities, reasons, strict=True):
        words = [reason for reason in own if reason not in shared]
        marks = "".join(f" [{shared.index(reason) + 1}]" for reason in own if reason in shared)
        why = f": {'; '.join(words)}" if words else ""
        by = capability.by or "-"
        yield f"  {capability.name:<{width}}  {capability.state.value:<10}by {by}{why}{marks}"
    for number, reason in enumerate(shared, start=1):
        yield f"  [{number}] {reason}"
