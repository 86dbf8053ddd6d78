"""The Dockerfile: what linters of such files ask for, and that it takes along what it needs."""

import fnmatch
import json
import re
import subprocess
import tomllib
from dataclasses import dataclass

import pytest
from deploy.composed import ROOT, services

PINNED = re.compile(r"^[\w./-]+:\d+\.\d+\.\d+[\w.-]*$|@sha256:[0-9a-f]{64}$")


@dataclass(frozen=True, kw_only=True)
class Order:
    """One instruction of the file, and which stage it belongs to."""

    word: str
    rest: str
    stage: str


def orders() -> list[Order]:
    """Return the instructions, with lines that go on joined and comments left out."""
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ").splitlines()
    found, stage = [], ""
    for line in filter(str.strip, joined):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stage = rest.partition(" AS ")[2]
        found.append(Order(word=word, rest=" ".join(rest.split()), stage=stage))
    return found


def of(word: str, stage: str | None = None) -> list[str]:
    return [order.rest for order in orders() if order.word == word and stage in {None, order.stage}]


@pytest.mark.requirement("deploy.pinned")
def test_every_stage_starts_from_an_image_that_is_named_by_its_version() -> None:
    arguments = dict(argument.split("=", 1) for argument in of("ARG"))
    bases = [base.partition(" AS ")[0] for base in of("FROM")]

    for base in bases:
        named = re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], base)
        assert PINNED.search(named), named
    assert len(bases) > 1, "what builds is not shipped"


@pytest.mark.requirement("deploy.least-privilege")
def test_the_image_runs_as_nobody_special_and_by_number() -> None:
    # By number, so that Kubernetes can tell that it is not root.
    assert of("USER", "flyball") == ["10001:10001"]
    after = orders()[[order.word for order in orders()].index("USER") + 1 :]
    assert not {order.word for order in after} & {"RUN", "COPY", "ADD"}


def test_packages_are_installed_without_what_they_only_recommend_and_without_their_lists() -> None:
    installs = [run for run in of("RUN") if "apt-get install" in run]

    assert installs
    for run in installs:
        assert "apt-get update &&" in run
        assert "--yes --no-install-recommends" in run
        assert "rm -rf /var/lib/apt/lists/*" in run
        assert "apt-get upgrade" not in run
    assert not of("ADD"), "it fetches and unpacks; COPY says what it does"
    assert not [run for run in of("RUN") if re.search(r"curl|wget|sudo|\|\s*(ba)?sh", run)]


@pytest.mark.requirement("deploy.pinned")
def test_what_python_runs_is_installed_by_hash_or_is_ours() -> None:
    installs = [run for run in of("RUN") if "pip install" in run]

    assert len(installs) == 2
    assert all("--no-cache-dir" in run for run in installs)
    assert "--require-hashes --requirement requirements.lock" in installs[0]
    assert "--no-deps --no-build-isolation ." in installs[1]


@pytest.mark.requirement("deploy.secrets-by-file")
def test_no_secret_is_built_in() -> None:
    given = [*of("ENV"), *of("ARG"), *of("LABEL")]

    assert not [line for line in given if re.search(r"(?i)password|secret|token|_key", line)]


def test_what_is_started_is_an_argument_list_so_that_signals_arrive() -> None:
    entry = json.loads(of("ENTRYPOINT", "flyball")[0])

    assert entry == ["/usr/bin/tini", "--", "/opt/flyball/bin/flyball"]
    assert json.loads(of("CMD", "flyball")[0]) == ["up"]
    assert of("STOPSIGNAL") == ["SIGTERM"]
    check = json.loads(of("HEALTHCHECK")[0].partition("CMD ")[2])
    assert ["CMD", *check] == services()["flyball"]["healthcheck"]["test"]


def ignored(path: str) -> bool:
    """Tell whether .dockerignore leaves a path out: the last line that covers it decides."""
    answer = False
    for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!")
        parts = path.split("/")
        heads = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
        names = [pattern, pattern.removeprefix("**/")]
        if any(fnmatch.fnmatchcase(head, name) for head in heads for name in names):
            answer = not line.startswith("!")
    return answer


def test_what_is_copied_is_in_the_repository_and_reaches_the_engine() -> None:
    copied = [line.split()[:-1] for line in of("COPY") if not line.startswith("--from")]
    sources = {source for line in copied for source in line}

    assert not [source for source in sources if not (ROOT / source).exists() or ignored(source)]
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    assert set(wheel["build"]["targets"]["wheel"]["only-include"]) <= sources
    assert {"requirements.lock", "pyproject.toml", "README.md", "LICENSE"} <= sources


def test_nothing_but_what_is_copied_reaches_the_engine() -> None:
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True, timeout=60)
    sent = {name for name in done.stdout.decode().split("\0") if name and not ignored(name)}

    copied = [line.split()[:-1] for line in of("COPY") if not line.startswith("--from")]
    sources = tuple(source for line in copied for source in line)
    others = {name for name in sent if not name.startswith(sources)}
    # The compose file mounts it from here.
    assert others == {"deploy/container/flyball.toml"}
    assert all(
        ignored(name) for name in (".git/config", ".flyball/admin.token", "deploy/secrets/a")
    )
