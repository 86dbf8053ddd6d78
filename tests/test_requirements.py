"""Every required behaviour is proven by a test, and every citation names one."""

import ast
from collections import defaultdict
from pathlib import Path

from tests.requirements import PENDING, REQUIREMENTS

TESTS = Path(__file__).resolve().parent


def citations() -> dict[str, list[str]]:
    """Return where each id is cited through `pytest.mark.requirement`."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not _is_citation(node):
                continue
            place = f"tests/{path.relative_to(TESTS)}:{node.lineno}"
            for argument in node.args:
                cited = argument.value if isinstance(argument, ast.Constant) else None
                found[cited if isinstance(cited, str) else "(not a literal)"].append(place)
    return found


def _is_citation(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "requirement"
        and ast.unparse(node.func) == "pytest.mark.requirement"
    )


def test_every_required_behaviour_is_proven() -> None:
    unproven = sorted(REQUIREMENTS.keys() - citations().keys() - PENDING)

    assert not unproven, f"cite these where they are proven: {unproven}"


def test_every_citation_names_a_required_behaviour() -> None:
    unknown = {name: at for name, at in citations().items() if name not in REQUIREMENTS}

    assert not unknown, f"state these in tests/requirements.py: {unknown}"


def test_what_is_proven_is_no_longer_pending() -> None:
    proven = {name: at for name, at in citations().items() if name in PENDING}

    assert not proven, f"take these out of PENDING in tests/requirements.py: {proven}"


def test_what_is_pending_is_required() -> None:
    assert REQUIREMENTS.keys() >= PENDING, sorted(PENDING - REQUIREMENTS.keys())
