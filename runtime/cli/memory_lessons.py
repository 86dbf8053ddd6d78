"""`flyball memory playbook` and `stats`: what is learned of the memory, and what it is worth."""

import argparse
from collections.abc import Sequence
from typing import Any

import httpx

from runtime.cli.admin_api import asked, date_of
from runtime.cli.memory_texts import table
from runtime.cli.showing import plain
from runtime.errors import RuntimeFaultError

_PATH = "/admin/v1/memory"
_PERCENT = 100

Told = tuple[dict[str, Any], str]


def add_arguments(deeds: Any) -> None:
    """Add the commands of what is learned."""
    deeds.add_parser("stats", help="what is kept, what quiet work cost and saved, how tasks went")
    book = deeds.add_parser("playbook", help="list playbooks; read one, go back, promote")
    book.add_argument("--class", dest="task_class", metavar="C", help="the class of tasks")
    book.add_argument("--namespace", metavar="ID", help="where several have one of that class")
    deed = book.add_mutually_exclusive_group()
    deed.add_argument("--history", action="store_true", help="list its versions")
    deed.add_argument("--rollback", type=int, metavar="V", help="let it be as in that version")
    deed.add_argument("--promote", metavar="BULLET", help="make it an instruction to agents")


def stats(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    """Return the figures of a tenant, with how they are told."""
    answer = asked(client, "GET", f"{_PATH}/stats", params={"tenant": arguments.tenant})
    return answer, stats_text(answer)


def playbook(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    """Return the playbooks, or what was asked of one of them.

    Raises:
        RuntimeFaultError: it is not said which one is meant, or there is none.
    """
    whose = {"tenant": arguments.tenant}
    found = asked(client, "GET", f"{_PATH}/playbooks", params=whose)
    does = arguments.history or arguments.rollback is not None or arguments.promote is not None
    if arguments.task_class is None and arguments.namespace is None and not does:
        return found, _listed_text(found["items"])
    path = f"{_PATH}/playbooks/{_meant(found['items'], arguments)['id']}"
    if arguments.history:
        answer = asked(client, "GET", f"{path}/history", params=whose)
        return answer, _history_text(answer["items"])
    if arguments.rollback is not None:
        body = {**whose, "version": arguments.rollback}
        answer = asked(client, "POST", f"{path}/rollback", json=body)
        told = f"It is as in version {arguments.rollback}, which is version {answer['version']}.\n"
        return answer, told + _playbook_text(answer)
    if arguments.promote is not None:
        body = {**whose, "bullet": arguments.promote}
        answer = asked(client, "POST", f"{path}/promote", json=body)
        return answer, "Agents get it as an instruction.\n" + _playbook_text(answer)
    answer = asked(client, "GET", path, params=whose)
    return answer, _playbook_text(answer)


def _meant(items: Sequence[dict[str, Any]], arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the one playbook that is meant.

    Raises:
        RuntimeFaultError: none is, or several may be.
    """
    wanted = {"task_class": arguments.task_class, "namespace": arguments.namespace}
    fitting = [
        one for one in items if all(value in (None, one[name]) for name, value in wanted.items())
    ]
    if not fitting:
        raise RuntimeFaultError("there is no such playbook; flyball memory playbook lists them")
    if len(fitting) > 1:
        names = ", ".join(
            f"--class {one['task_class']} --namespace {one['namespace']}" for one in fitting[:3]
        )
        raise RuntimeFaultError(f"{len(fitting)} playbooks may be meant; say which one: {names}")
    return fitting[0]


def _listed_text(items: Sequence[dict[str, Any]]) -> str:
    rows = [
        (
            plain(one["task_class"]),
            one["namespace"],
            str(one["version"]),
            date_of(one["changed_at_ms"]),
        )
        for one in items
    ]
    headings = ("class", "namespace", "version", "changed")
    return table(headings, rows, none="No playbook is written yet.")


def _playbook_text(answer: dict[str, Any]) -> str:
    rows = [
        (
            one["id"],
            f"+{one['helped']}/-{one['harmed']}",
            one["lane"],
            "instructs" if one["instructs"] else "evidence",
            plain(f"{one['section']}: {one['text']}" if one["section"] else one["text"]),
        )
        for one in answer["bullets"]
    ]
    head = f"{plain(answer['task_class'])} in {answer['namespace']}, version {answer['version']}\n"
    headings = ("bullet", "votes", "lane", "as", "text")
    return head + table(headings, rows, none="There is no bullet in it.")


def _history_text(items: Sequence[dict[str, Any]]) -> str:
    rows = [
        (
            str(one["version"]),
            date_of(one["at_ms"]),
            str(one["changes"]),
            str(one["undone"]),
            plain(", ".join(one["written_by"])),
        )
        for one in items
    ]
    headings = ("version", "when", "changes", "undone", "by")
    return table(headings, rows, none="Nothing of its history is kept.")


def stats_text(answer: dict[str, Any]) -> str:
    """Return the figures of a memory, in four parts."""
    kept = [
        (
            one["lane"],
            one["kind"],
            one["standing"],
            str(one["experiences"]),
            str(one["content_bytes"]),
        )
        for one in answer["kept"]
    ]
    classes = [
        (
            plain(one["task_class"]),
            str(one["tasks"]),
            f"{_PERCENT * one['solved'] / one['tasks']:.0f} %",
        )
        for one in answer["classes"]
    ]
    choices = [
        (
            one["what"],
            one["arm"],
            *(str(one[name]) for name in ("choices", "explored", "spoken_of", "tokens")),
            f"{one['latency_us'] / 1_000:.1f} ms",
        )
        for one in answer["choices"]
    ]
    return "\n".join(
        (
            table(
                ("lane", "kind", "standing", "experiences", "bytes"),
                kept,
                none="Nothing is kept yet.",
            ),
            _quiet_text(answer["quiet"]),
            table(("class", "tasks", "solved"), classes, none="Nobody said how a task went yet."),
            table(
                ("choice", "fell on", "times", "tried out", "spoken of", "tokens", "took"),
                choices,
                none="Nothing was chosen yet.",
            ),
        )
    )


def _quiet_text(quiet: dict[str, Any]) -> str:
    return (
        f"In quiet hours: {quiet['works']} works made {quiet['made']} things out of "
        f"{quiet['tokens']} tokens, for {quiet['cost_microusd']} microusd.\n"
        f"Prepared answers were given {quiet['served']} times, and saved their readers "
        f"{quiet['tokens_saved']} tokens.\n"
    )
