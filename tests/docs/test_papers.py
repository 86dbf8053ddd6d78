"""What a paper's page says is so: the modules are there, the figures were measured."""

import re
from pathlib import Path

import pytest

from docs.tools.snippets import DOCS, ROOT, snippets_of

FOLDER = DOCS / "papers"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path.name != "index.md")
PATH = re.compile(
    r"`(?P<path>(?:runtime|governor|tool_gateway|memory_store|ebpf|benchmarks|tests)/[\w./]+)`"
)
MODULE = re.compile(r"-m (?P<module>benchmarks\.\w+)")
SCRIPT = re.compile(r"(?P<path>(?:benchmarks|tests)/[\w/]+\.py)")
EVALUATION = re.compile(r"flyball eval (?P<name>\w+)")
BOLD = re.compile(r"\*\*(?P<words>[^*]*\d[^*]*)\*\*")
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
HEADINGS = (
    "What was taken",
    "Where it lives",
    "What was measured",
    "What was not taken, or not shown",
)
# Where what a command measured is written down.
MEASURED = ("benchmarks/RESULTS.md", "benchmarks/PROOF.md", "docs/how-to/remember.md")


def section(text: str, heading: str) -> str:
    return text.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def ways_to_write(number: str) -> set[str]:
    """Return how a number may stand elsewhere: a percentage as a share, too."""
    value = float(number.replace(",", ""))
    share = {f"{value / 100:.3f}", f"{value / 100:.2f}"} if 1 <= value <= 100 else set()
    return {number, *share}


@pytest.mark.requirement("docs.papers-are-true")
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_papers_page_has_its_sections_and_names_what_there_is(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    found = tuple(line[3:] for line in text.splitlines() if line.startswith("## "))
    assert found == HEADINGS
    named = {match["path"] for match in PATH.finditer(text)}
    assert any(PATH.search(line) for line in section(text, "Where it lives").splitlines())
    missing = sorted(path for path in named if not (ROOT / path).exists())
    assert not missing, missing


@pytest.mark.requirement("docs.papers-are-true")
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_papers_figures_are_written_down_where_they_were_measured(page: Path) -> None:
    text = section(page.read_text(encoding="utf-8"), "What was measured")
    measured = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in MEASURED)
    known = set(NUMBER.findall(measured))

    figures = [number for bold in BOLD.finditer(text) for number in NUMBER.findall(bold["words"])]
    strange = [number for number in figures if not ways_to_write(number) & known]
    assert not strange, f"{page.name}: nothing measured {strange}"


@pytest.mark.requirement("docs.papers-are-true")
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_papers_command_can_be_given(page: Path) -> None:
    commands = "".join(found.text for found in snippets_of(page))

    assert commands, f"{page.name}: which command measures it again?"
    for found in MODULE.finditer(commands):
        assert (ROOT / f"{found['module'].replace('.', '/')}.py").is_file(), found["module"]
    for found in SCRIPT.finditer(commands):
        assert (ROOT / found["path"]).is_file(), found["path"]
    for found in EVALUATION.finditer(commands):
        name = found["name"]
        assert list((ROOT / "runtime" / "evaluate").glob(f"{name}*")), name


def test_a_figure_that_nothing_measured_is_noticed() -> None:
    assert ways_to_write("74.7") & {"0.747"}
    assert not ways_to_write("99.9") & {"0.747", "98.9"}
    assert ways_to_write("0.777") == {"0.777"}
