"""`flyball memory`: look into the experience memory, teach it, promote, withdraw and erase."""

import argparse
import base64
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from governor.experience.kinds import ExperienceKind, Standing, TrustLane
from governor.experience.namespace import Right
from memory_store.paging import PAGE_LIMIT_MAX
from runtime.cli import memory_files, memory_lessons
from runtime.cli.admin_api import add_options, asked, client_of
from runtime.cli.counts import count
from runtime.cli.memory_texts import (
    content_text,
    experience_text,
    found_text,
    grant_text,
    granted_text,
    listed_text,
    table,
    tiers_text,
)
from runtime.errors import RuntimeFaultError
from runtime.settings import Settings
from runtime.token_files import TENANT

_PATH = "/admin/v1/memory"
_SHOWN = 20

_NAMED = "its id, or its name: tenant, team/NAME, agent/PRINCIPAL"

Told = tuple[dict[str, Any], str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add one command for each thing that can be done."""
    deeds = parser.add_subparsers(title="what to do", metavar="DEED", dest="deed", required=True)
    _add_looking(deeds)
    _add_changing(deeds)
    memory_lessons.add_arguments(deeds)
    memory_files.add_arguments(deeds)
    for deed in deeds.choices.values():
        deed.add_argument("--tenant", default=TENANT, help=f"whose memory; default: {TENANT}")
    add_options(deeds.choices.values())


def _add_looking(deeds: Any) -> None:
    search = deeds.add_parser("search", help="find experiences, in every lane")
    search.add_argument("query", help="what they are about")
    search.add_argument(
        "--namespace", action="append", default=[], metavar="NAMESPACE", help=_NAMED
    )
    search.add_argument(
        "--limit", type=count, metavar="N", default=10, help="how many; default: 10"
    )
    listed = deeds.add_parser("ls", help="list experiences, the latest first")
    listed.add_argument("--namespace", metavar="NAMESPACE", help=_NAMED)
    listed.add_argument("--kind", choices=[kind.value for kind in ExperienceKind])
    listed.add_argument("--lane", choices=[lane.value for lane in TrustLane])
    listed.add_argument("--standing", choices=[standing.value for standing in Standing])
    listed.add_argument("--writer", metavar="PRINCIPAL")
    listed.add_argument(
        "--limit", type=count, metavar="N", default=_SHOWN, help=f"lines; default: {_SHOWN}"
    )
    show = deeds.add_parser("show", help="show one experience with where it is from")
    show.add_argument("index")
    show.add_argument("--content", action="store_true", help="write its bytes, and nothing else")
    deeds.add_parser("namespaces", help="list namespaces with their grants")
    deeds.add_parser("usage", help="how much each namespace keeps, by lane")
    tiers = deeds.add_parser("tiers", help="what was learned of searches; put in force, take back")
    deed = tiers.add_mutually_exclusive_group()
    deed.add_argument("--promote", action="store_true", help="let it choose, if it loses nothing")
    deed.add_argument("--force", action="store_true", help="let it choose in any case")
    deed.add_argument("--rollback", action="store_true", help="let what was before choose")


def _add_changing(deeds: Any) -> None:
    teach = deeds.add_parser("teach", help="write a lesson, which agents get as an instruction")
    teach.add_argument("content", help="the text, or @FILE")
    teach.add_argument("--kind", choices=[kind.value for kind in ExperienceKind], default="lesson")
    teach.add_argument("--summary", default="")
    teach.add_argument("--namespace", metavar="NAMESPACE", help="default: the whole tenant's")
    teach.add_argument("--tag", action="append", default=[])
    promote = deeds.add_parser("promote", help="let an experience be found, or instruct")
    promote.add_argument("index")
    promote.add_argument("--to", choices=["evidence", "instruction"], default="evidence")
    quarantine = deeds.add_parser("quarantine", help="let nobody find an experience")
    quarantine.add_argument("index")
    revoke = deeds.add_parser("revoke", help="withdraw it, or all of a writer, and what it led to")
    revoke.add_argument("index", nargs="?")
    revoke.add_argument("--writer", metavar="PRINCIPAL")
    revoke.add_argument(
        "--since", type=int, default=0, metavar="EPOCH_MS", help="only what came later"
    )
    forget = deeds.add_parser("forget", help="erase for good, with everything made of it")
    forget.add_argument("index", nargs="*")
    forget.add_argument("--session", metavar="ID")
    forget.add_argument("--writer", metavar="PRINCIPAL")
    forget.add_argument("--namespace", metavar="NAMESPACE")
    forget.add_argument("--yes", action="store_true", help="erase all of what the options name")
    for deed in (promote, quarantine, revoke, forget):
        deed.add_argument("--why", default="", help="kept in the log of experiences")
    grant = deeds.add_parser("grant", help="give or take a right in a namespace")
    grant.add_argument("namespace", metavar="NAMESPACE", help=_NAMED)
    grant.add_argument("principal", help='"*" is every principal of the tenant')
    grant.add_argument("right", choices=[*(right.value for right in Right), "none"])
    limit = deeds.add_parser("limit", help="say how many bytes a namespace may keep")
    limit.add_argument("namespace", metavar="NAMESPACE", help=_NAMED)
    limit.add_argument("--bytes-max", type=int, help="without it there is no bound")
    make = deeds.add_parser("make", help="make a namespace that agents share")
    make.add_argument("name", metavar="team/NAME")
    make.add_argument("--bytes-max", type=int)


def run(arguments: argparse.Namespace, settings: Settings) -> int:
    """Do it and tell what came of it; return 1 where something does not add up, else 0.

    Raises:
        RuntimeFaultError: no sidecar answers, or it refuses.
    """
    with client_of(settings) as client:
        if arguments.deed == "show" and arguments.content:
            sys.stdout.buffer.write(memory_files.content_of(client, arguments))
            return 0
        if arguments.deed == "export":
            return memory_files.exported(client, arguments)
        answer, text = _DEEDS[arguments.deed](client, arguments)
    sys.stdout.write(json.dumps(answer) + "\n" if arguments.json else text)
    return 0 if answer.get("ok", True) else 1


def _search(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    body = {
        "tenant": arguments.tenant,
        "query": arguments.query,
        "namespaces": arguments.namespace,
        "limit": arguments.limit,
    }
    answer = asked(client, "POST", f"{_PATH}/search", json=body)
    return answer, found_text(answer)


def _ls(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    names = ("tenant", "namespace", "kind", "lane", "standing", "writer")
    wanted = {name: getattr(arguments, name) for name in names}
    params = {name: value for name, value in wanted.items() if value is not None}
    items: list[dict[str, Any]] = []
    following: str | None = None
    while len(items) < arguments.limit:
        size = min(arguments.limit - len(items), PAGE_LIMIT_MAX)
        more = {} if following is None else {"cursor": following}
        page = asked(
            client, "GET", f"{_PATH}/experiences", params={**params, **more, "limit": size}
        )
        items += page["items"]
        following = page["next"]
        if following is None:
            break
    return {"items": items, "next": following}, listed_text(items, follows=following is not None)


def _show(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    path = f"{_PATH}/experiences/{arguments.index}"
    answer = asked(client, "GET", path, params={"tenant": arguments.tenant})
    answer |= memory_files.shown_content(client, arguments, answer)
    return answer, experience_text(answer)


def _namespaces(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    answer = asked(client, "GET", f"{_PATH}/namespaces", params={"tenant": arguments.tenant})
    rows = [
        (
            one["id"],
            one["name"],
            one["owner"] or "-",
            ", ".join(map(grant_text, one["grants"])) or "-",
        )
        for one in answer["items"]
    ]
    return answer, table(("id", "name", "owner", "grants"), rows, none="No namespace is there yet.")


def _usage(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    answer = asked(client, "GET", f"{_PATH}/usage", params={"tenant": arguments.tenant})
    rows = [
        (one["name"], one["lane"], str(one["experiences"]), str(one["content_bytes"]))
        for one in answer["items"]
    ]
    headings = ("namespace", "lane", "experiences", "bytes")
    return answer, table(headings, rows, none="Nothing is kept yet.")


def _tiers(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    path, whose = f"{_PATH}/tiers", {"tenant": arguments.tenant}
    if arguments.promote or arguments.force:
        body = {**whose, "force": arguments.force}
        answer = asked(client, "POST", f"{path}/promote", json=body)
    elif arguments.rollback:
        answer = asked(client, "POST", f"{path}/rollback", json=whose)
    else:
        answer = asked(client, "GET", path, params=whose)
    return answer, tiers_text(answer)


def _teach(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    body = {
        "tenant": arguments.tenant,
        "kind": arguments.kind,
        "summary": arguments.summary,
        "tags": arguments.tag,
        **_content(arguments.content),
    }
    if arguments.namespace is not None:
        body["namespace"] = arguments.namespace
    answer = asked(client, "POST", f"{_PATH}/experiences", json=body)
    return answer, f"Kept as {answer['index']}; agents are given it as an instruction.\n"


def _content(said: str) -> dict[str, Any]:
    """Return the content that was given, or that of the file that was named.

    Raises:
        RuntimeFaultError: the file cannot be read.
    """
    if not said.startswith("@"):
        return {"content": said}
    path = Path(said[1:])
    try:
        content = path.read_bytes()
    except OSError as error:
        raise RuntimeFaultError(f"{path}: cannot be read: {error.strerror}") from error
    return {"content": base64.b64encode(content).decode(), "encoding": "base64"}


def _promote(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    answer = asked(
        client,
        "POST",
        f"{_PATH}/experiences/{arguments.index}/promote",
        json={"tenant": arguments.tenant, "to": arguments.to, "why": arguments.why},
    )
    index = answer["experience"]["index"]
    if answer["is_adopted"]:
        answer["experience"] |= memory_files.shown_content(client, arguments, answer["experience"])
        told = f"{index} instructs agents from now on, with what {arguments.index} says:\n\n"
        return answer, told + content_text(answer["experience"])
    return answer, f"{index} is found from now on.\n"


def _quarantine(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    return _withdrawn(client, arguments, "quarantined")


def _revoke(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    if (arguments.index is None) == (arguments.writer is None):
        raise RuntimeFaultError("name one index, or --writer PRINCIPAL")
    if arguments.index is not None:
        return _withdrawn(client, arguments, "revoked")
    body = {
        "tenant": arguments.tenant,
        "writer": arguments.writer,
        "since_ms": arguments.since,
        "why": arguments.why,
    }
    answer = asked(client, "POST", f"{_PATH}/revoke", json=body)
    return answer, _changed(answer, "revoked")


def _withdrawn(client: httpx.Client, arguments: argparse.Namespace, to: str) -> Told:
    answer = asked(
        client,
        "POST",
        f"{_PATH}/experiences/{arguments.index}/withdraw",
        json={"tenant": arguments.tenant, "to": to, "why": arguments.why},
    )
    return answer, _changed(answer, to)


def _forget(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    body = {
        "tenant": arguments.tenant,
        "indices": arguments.index,
        "session": arguments.session,
        "writer": arguments.writer,
        "namespace": arguments.namespace,
        "why": arguments.why,
    }
    wide = [f"--{name}" for name in ("session", "writer", "namespace") if body[name] is not None]
    if wide and not arguments.yes:
        told = f"{' '.join(wide)} erases all of it for good: add --yes"
        raise RuntimeFaultError(f"{told}; `flyball memory ls` shows what is there")
    answer = asked(client, "POST", f"{_PATH}/erase", json=body)
    answer["ok"] = not answer["missing"]
    gone = "".join(f"{index}: there is no such experience.\n" for index in answer["missing"])
    return answer, _changed(answer, "erased") + gone


def _changed(answer: dict[str, Any], done: str) -> str:
    told = f"{answer['experiences']} {done}"
    if answer["derived"]:
        told += f", {answer['derived']} of them because they were made of the others"
    if answer["quarantined"]:
        told += f"; {answer['quarantined']} more, made of them in part, wait in quarantine"
    return f"{told}.\n"


def _grant(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    right = None if arguments.right == "none" else arguments.right
    body = {"tenant": arguments.tenant, "principal": arguments.principal, "right": right}
    where = quote(arguments.namespace, safe="")
    answer = asked(client, "POST", f"{_PATH}/namespaces/{where}/grants", json=body)
    return answer, granted_text(arguments.principal, arguments.right, answer)


def _limit(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    body = {"tenant": arguments.tenant, "bytes_max": arguments.bytes_max}
    where = quote(arguments.namespace, safe="")
    answer = asked(client, "POST", f"{_PATH}/namespaces/{where}/limit", json=body)
    most = answer["bytes_max"]
    return answer, f"{answer['name']} may keep {'anything' if most is None else f'{most} bytes'}.\n"


def _make(client: httpx.Client, arguments: argparse.Namespace) -> Told:
    body = {"tenant": arguments.tenant, "name": arguments.name, "bytes_max": arguments.bytes_max}
    answer = asked(client, "POST", f"{_PATH}/namespaces", json=body)
    give = f"flyball memory grant {answer['name']} PRINCIPAL write"
    return answer, f"{answer['name']} is there ({answer['id']}); give rights: {give}\n"


_DEEDS: dict[str, Callable[[httpx.Client, argparse.Namespace], Told]] = {
    "search": _search,
    "ls": _ls,
    "show": _show,
    "namespaces": _namespaces,
    "usage": _usage,
    "tiers": _tiers,
    "teach": _teach,
    "promote": _promote,
    "quarantine": _quarantine,
    "revoke": _revoke,
    "forget": _forget,
    "grant": _grant,
    "limit": _limit,
    "make": _make,
    "playbook": memory_lessons.playbook,
    "stats": memory_lessons.stats,
    "import": memory_files.imported,
    "fsck": memory_files.checked,
}
