"""The house rules that no linter knows; each message names the place and the fix."""

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("runtime", "governor", "memory_store", "tool_gateway", "ebpf")
FOLDERS = (*PACKAGES, "tests", "benchmarks", "docs", "migrations", "deploy")
LOCKS = ("requirements.lock", "requirements-dev.lock")

FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 500
LINE_CHARS_MAX = 100
BLOB_BYTES_MAX = 200_000
# Made from what cannot be fetched where Flyball is built; its card says how.
SHIPPED_BLOBS = {"runtime/word_vectors/english.vectors": 8_000_000}

# Written in pieces, so that this file does not break its own rule.
REGISTRIES = tuple(
    ".".join(labels)
    for labels in (
        ("pypi", "org"),
        ("files", "pythonhosted", "org"),
        ("registry", "npmjs", "org"),
        ("deb", "debian", "org"),
    )
)
WORKSHOP_PATH = re.compile(r"(?<![\w.~-])/" + r"work/")
UNFINISHED = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
README_HEADINGS = ("Owns", "Does not own", "Invariants", "Words")
MIGRATION_NAME = re.compile(r"^(?P<number>\d{8}_\d{2})_(pre|post)_[a-z0-9]+(_[a-z0-9]+)*\.py$")
RELEASE = re.compile(r"^## \[(?P<version>\d+\.\d+\.\d+)\] - (?P<date>\d{4}-\d{2}-\d{2})$")
CHANGE_KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
# Folders that are never part of the repository, for a checkout without git.
UNTRACKED = {"build", "dist", "__pycache__", "node_modules"}


@cache
def repository_files() -> tuple[Path, ...]:
    """Return what git tracks or would track; without git, what stands in the folder."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        done = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.CalledProcessError):
        walked = sorted(path for path in ROOT.rglob("*") if path.is_file())
        return tuple(path for path in walked if not _is_left_out(path.relative_to(ROOT)))
    names = sorted(set(done.stdout.decode().split("\0")) - {""})
    # A file that is deleted and not yet committed is still listed.
    return tuple(path for name in names if (path := ROOT / name).is_file())


def _is_left_out(path: Path) -> bool:
    hidden = {part for part in path.parts[:-1] if part.startswith(".") and part != ".ci"}
    return bool(hidden or UNTRACKED & set(path.parts))


def python_files(*folders: str) -> list[Path]:
    return [
        path
        for path in repository_files()
        if path.suffix == ".py" and path.relative_to(ROOT).parts[0] in (folders or FOLDERS)
    ]


def text_lines() -> Iterator[tuple[Path, int, str]]:
    """Yield every line of every text file of the repository with its place."""
    for path in repository_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            yield path, number, line


def place(path: Path, line: int = 1) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def tell(faults: list[str]) -> str:
    return "\n" + "\n".join(faults)


def test_no_function_is_longer_than_seventy_lines() -> None:
    faults = [
        f"{place(path, node.lineno)}: {node.name} has {length} lines; split it"
        for path in python_files()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (length := (node.end_lineno or 0) - node.lineno + 1) > FUNCTION_LINES_MAX
    ]

    assert not faults, tell(faults)


def test_no_module_is_longer_than_five_hundred_lines() -> None:
    faults = [
        f"{place(path, count)}: {count} lines; make two modules of it"
        for path in python_files()
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > MODULE_LINES_MAX
    ]

    assert not faults, tell(faults)


def test_no_line_is_longer_than_a_hundred_characters() -> None:
    faults = [
        f"{place(path, number)}: {len(line)} characters; break the line"
        for path in python_files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if len(line) > LINE_CHARS_MAX
    ]

    assert not faults, tell(faults)


def test_every_module_opens_with_one_sentence() -> None:
    faults = []
    for path in python_files(*PACKAGES):
        docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        opening = docstring.split("\n\n", maxsplit=1)[0]
        if not opening.endswith(".") or re.search(r"[.!?] [A-Z]", opening):
            faults.append(f"{place(path)}: open with one sentence that says what it is for")

    assert not faults, tell(faults)


def test_no_folder_under_tests_is_a_package() -> None:
    faults = [
        f"{place(path)}: remove it, or the tests' folder shadows the package of that name"
        for path in python_files("tests")
        if path.name == "__init__.py"
    ]

    assert not faults, tell(faults)


def test_nothing_is_marked_as_unfinished() -> None:
    faults = [
        f"{place(path, number)}: finish it, or say in the README what the design leaves out"
        for path, number, line in text_lines()
        if path.suffix in {".py", ".c", ".h", ".toml", ".md"} and UNFINISHED.search(line)
    ]

    assert not faults, tell(faults)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_what_it_owns(package: str) -> None:
    readme = ROOT / package / "README.md"

    assert readme.is_file(), f"{package}/README.md:1: write it, with the headings of the house"
    headings = [
        line.lstrip("# ").strip()
        for line in readme.read_text(encoding="utf-8").splitlines()
        if line.startswith("## ")
    ]
    found = [heading for heading in headings if heading in README_HEADINGS]
    assert tuple(found) == README_HEADINGS, (
        f"{place(readme)}: the headings {README_HEADINGS} in this order; found {found}"
    )


def test_the_changelog_keeps_its_shape() -> None:
    """Unreleased on top, then dated releases, the newest first; known kinds of change."""
    path = ROOT / "CHANGELOG.md"
    lines = path.read_text(encoding="utf-8").splitlines()
    headings = [(n, line) for n, line in enumerate(lines, start=1) if line.startswith("## ")]

    assert lines[0] == "# Changelog", f"{place(path)}: the title is '# Changelog'"
    assert headings, f"{place(path)}: add '## [Unreleased]'"
    assert headings[0][1] == "## [Unreleased]", f"{place(path, headings[0][0])}: Unreleased first"
    releases = []
    for number, heading in headings[1:]:
        release = RELEASE.match(heading)
        assert release, f"{place(path, number)}: write '## [1.2.3] - 2026-01-31'"
        releases.append((release["date"], tuple(map(int, release["version"].split(".")))))
    assert releases == sorted(releases, reverse=True), f"{place(path)}: newest release first"
    for number, line in enumerate(lines, start=1):
        kind = line.removeprefix("### ")
        assert kind == line or kind in CHANGE_KINDS, f"{place(path, number)}: no kind {kind!r}"


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_requirement_is_pinned_with_its_hashes(name: str) -> None:
    path = ROOT / name

    assert path.is_file(), f"{name}:1: missing; run `make lock`"
    faults = []
    joined = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for entry in joined.splitlines():
        if not entry.strip() or entry.lstrip().startswith("#"):
            continue
        if "==" not in entry or "--hash=sha256:" not in entry:
            faults.append(f"{name}: {entry.split(' ')[0]}: pin it with hashes; run `make lock`")
    assert not faults, tell(faults)


@pytest.mark.parametrize("name", LOCKS)
def test_the_lock_files_name_no_index(name: str) -> None:
    """Where packages come from is the business of the machine that installs them."""
    path = ROOT / name

    assert path.is_file(), f"{name}:1: missing; run `make lock`"
    lines = path.read_text(encoding="utf-8").splitlines()
    faults = [
        f"{name}:{number}: take the address out; `make lock` passes --no-emit-index-url"
        for number, line in enumerate(lines, start=1)
        if "://" in line or "index-url" in line.replace("--no-emit-index-url", "")
    ]
    assert not faults, tell(faults)


def test_no_file_names_a_registry() -> None:
    """A build must work behind a mirror, so no file may know where packages live."""
    faults = [
        f"{place(path, number)}: {host}: leave the address to the installer's configuration"
        for path, number, line in text_lines()
        for host in REGISTRIES
        if host in line
    ]

    assert not faults, tell(faults)


def test_no_file_names_a_path_of_the_machine_it_was_written_on() -> None:
    faults = [
        f"{place(path, number)}: make the path relative to the repository"
        for path, number, line in text_lines()
        if WORKSHOP_PATH.search(line)
    ]

    assert not faults, tell(faults)


def test_no_object_names_a_folder_of_the_machine_it_was_compiled_on() -> None:
    source = re.compile(rb"\0(/[^\0]*\.(?:c|h))\0")
    faults = [
        f"{place(path)}: names {found[1].decode()}; compile it with build.sh"
        for path in repository_files()
        if path.suffix == ".o"
        for found in source.finditer(path.read_bytes())
        if not found[1].startswith(b"/usr/include/")
    ]

    assert not faults, tell(faults)


def test_migrations_are_named_by_date_number_and_phase() -> None:
    names = sorted(path.name for path in (ROOT / "migrations" / "versions").glob("*.py"))
    matches = {name: MIGRATION_NAME.match(name) for name in names}
    numbers = [match["number"] for match in matches.values() if match]

    wrong = [name for name, match in matches.items() if match is None]
    assert not wrong, f"migrations/versions/: {wrong}: YYYYMMDD_NN_(pre|post)_words.py"
    twice = {number for number in numbers if numbers.count(number) > 1}
    assert not twice, f"migrations/versions/: two files have {twice}; take the next number"


def test_no_large_binary_file_is_kept() -> None:
    faults = [
        f"{place(path)}: {path.stat().st_size} bytes; build it or fetch it instead"
        for path in repository_files()
        if path.stat().st_size
        > SHIPPED_BLOBS.get(path.relative_to(ROOT).as_posix(), BLOB_BYTES_MAX)
        and b"\0" in path.read_bytes()[:8192]
    ]

    assert not faults, tell(faults)


def test_no_task_group_is_entered_on_an_exit_stack() -> None:
    """Raising a cancellation again, it sends the stack round and round at the end."""
    entering = re.compile(r"enter_async_context\(\s*(anyio\.)?create_task_group\(")
    faults = [
        f"{place(path)}: enter the task group with a statement of its own"
        for path in python_files(*PACKAGES)
        if entering.search(path.read_text(encoding="utf-8"))
    ]

    assert not faults, tell(faults)
