"""What kind of work a command line does, by its words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from governor.command_class import CommandClass, class_of


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("pytest -q tests", CommandClass.TEST),
        ("cd /repo && python -m pytest tests/test_a.py", CommandClass.TEST),
        ("timeout 60 python3 -m unittest discover", CommandClass.TEST),
        ("PYTHONPATH=. ./runtests.py", CommandClass.TEST),
        ("python manage.py test app", CommandClass.TEST),
        ("npm run build && npm test", CommandClass.TEST),
        ("uv run pytest", CommandClass.TEST),
        ("bash -c 'pytest -x'", CommandClass.TEST),
        ("pip install -e .", CommandClass.INSTALL),
        ("python -m pip install pandas", CommandClass.INSTALL),
        ("apt-get update; apt-get install -y gcc", CommandClass.INSTALL),
        ("uv sync", CommandClass.INSTALL),
        ("make -j8 all", CommandClass.BUILD),
        ("make test", CommandClass.TEST),
        ("cargo build --release", CommandClass.BUILD),
        ("cd build && cmake ..", CommandClass.BUILD),
        ("python setup.py build_ext --inplace", CommandClass.INSTALL),
        ("python script.py", CommandClass.PYTHON),
        ('python3 -c "import pytest"', CommandClass.PYTHON),
        ("git log | head", CommandClass.GIT),
        ("grep -rn needle . | head -20", CommandClass.EXPLORE),
        ("ls -la; cat file", CommandClass.EXPLORE),
        ("echo hello", CommandClass.OTHER),
        ("", CommandClass.OTHER),
        ("grep pytest setup.cfg", CommandClass.EXPLORE),
    ],
)
def test_the_heaviest_command_of_a_line_names_its_class(line: str, kind: CommandClass) -> None:
    assert class_of(line) is kind


@given(st.text(max_size=200))
def test_every_text_has_a_class(line: str) -> None:
    assert class_of(line) in CommandClass
