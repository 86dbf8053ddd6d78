"""`flyball doctor`: what this host can enforce, and whether the configuration works."""

import argparse
import json
import sys

from runtime.examination import Examination, examine
from runtime.settings import Settings

NAME = "doctor"
HELP = "Say what this host can enforce and whether the configuration works."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing of its own."""


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Print the examination; return 0 if everything works, 1 otherwise."""
    examination = examine(settings)
    if arguments.json:
        sys.stdout.write(json.dumps(examination.shape()) + "\n")
    else:
        sys.stdout.write(_text(examination))
    return 0 if examination.is_ok else 1


def _text(examination: Examination) -> str:
    lines = ["What this host can enforce:"]
    for capability in examination.capabilities:
        why = f": {capability.why}" if capability.why else ""
        lines.append(
            f"  {capability.name:<14}{capability.state.value:<10}by {capability.by or '-'}{why}"
        )
    lines.append("")
    lines.append("Configuration and installation:")
    lines.extend(
        f"  {'ok' if finding.is_ok else 'BAD':<5}{finding.what}: {finding.told}"
        for finding in examination.findings
    )
    lines.append("")
    lines.append("Everything works." if examination.is_ok else "Mend what is marked BAD.")
    return "\n".join(lines) + "\n"
