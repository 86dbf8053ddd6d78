"""The pages of what is refused: denials, which are answers, and problems, which are errors."""

import re
from collections import defaultdict
from pathlib import Path

from docs.tools.markdown import code, page, table
from governor.denial import DenialReason, RemedyAction
from runtime.failures import FAILURES, Failure

ROOT = Path(__file__).resolve().parents[2]
WORDS = Path(__file__).with_name("denials.toml")
_REMEDY = re.compile(r"RemedyAction\.([A-Z_]+)")


def problems_page() -> str:
    """Return the page of the errors that HTTP and JSON-RPC answer with."""
    by_title: defaultdict[Failure, list[type[Exception]]] = defaultdict(list)
    for error, failure in FAILURES.items():
        by_title[failure._replace(detail=None)].append(error)
    rows = [
        (
            str(int(failure.status)),
            str(failure.code),
            code(f"urn:flyball:problem:{failure.title.lower().replace(' ', '-')}"),
            "; ".join(dict.fromkeys(map(_meaning, errors))),
        )
        for failure, errors in sorted(
            by_title.items(), key=lambda item: (item[0].status, item[0].title)
        )
    ]
    intro = (
        "Over HTTP an error is a problem document (RFC 9457, `application/problem+json`) with "
        "`type`, `title`, `status`, `detail` and, where fields are at fault, `errors` "
        "(`field`, `detail`). Over MCP it is a JSON-RPC error with the code below. The model "
        "front answers in the client's own format. What nobody foresaw is an `internal-error`: "
        "its text stands in the log, not in the answer."
    )
    return page(
        "Errors",
        "`runtime/failures.py`",
        intro,
        table(("HTTP", "JSON-RPC", "type", "when"), rows),
    )


def _meaning(error: type[Exception]) -> str:
    """Return the first sentence of an error's docstring, which is its message by default."""
    words = " ".join((error.__doc__ or error.__name__).split("\n\n")[0].split())
    return words.rstrip(".")


def denials_page(words: dict[str, dict[str, str]]) -> str:
    """Return the page of the reasons for which calls are not started."""
    actions = _actions_used()
    rows = [(code(reason.value), words["reasons"].get(reason.value, "")) for reason in DenialReason]
    remedies = [
        (code(action.value), words["remedies"].get(action.value, ""))
        for action in RemedyAction
        if action.name in actions
    ]
    intro = (
        "A denial is a decision not to start a call; nothing was held for it, nothing is charged. "
        'A tool\'s caller gets it as a result with `isError` and `_meta["flyball/denial"]`, a '
        "model's client as HTTP 429 in its provider's own form with `flyball.denial` in the body, "
        "the memory's over HTTP as 429 with `flyball`. The words are stable: programs match on "
        "them."
    )
    fields = (
        "## The fields\n\n`reason`, `remedy` (`action`, `text`, and `cheaper` and `contact` where "
        "the policy names them), `retry_after_ms` and, where a budget is short, `budget_id`, "
        "`unit`, `limit`, `used`, `reserved`, `requested`, `resets_at_ms`; the other short budgets "
        "under `also`, the narrowest scope first. A question to a person has `approval_id`, a gate "
        "its `challenge`."
    )
    return page(
        "Denials",
        "`governor/denial.py`",
        intro,
        "## Reasons\n\n" + table(("reason", "when"), rows),
        "## Remedies\n\n" + table(("action", "what the caller does"), remedies),
        fields,
    )


def _actions_used() -> set[str]:
    """Return the remedies that some module names: one that nobody gives is not shown."""
    used: set[str] = set()
    for package in ("governor", "tool_gateway", "runtime"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            used |= set(_REMEDY.findall(text))
    return used
