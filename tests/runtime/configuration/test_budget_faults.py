"""A budget of the file that cannot be meant is refused by its place, in plain words."""

import pytest

from runtime.configuration.load import parse_config
from tests.runtime.configuration.test_faults import BUDGET, refusal_of


def test_a_window_of_more_than_ten_years_is_refused() -> None:
    (said,) = refusal_of(BUDGET + "limits = { turns = 1 }\nwindow = { every_s = 316224001 }\n")

    assert said.startswith("flyball.toml: budget[0].window.every_s = 316224001: ")
    assert said.endswith("should be less than or equal to 316224000")


@pytest.mark.parametrize(("window", "shown"), [('"weekly"', " = 'weekly'"), ("{}", "")])
def test_a_window_that_is_no_window_is_told_in_the_files_words(window: str, shown: str) -> None:
    (said,) = refusal_of(BUDGET + f"limits = {{ turns = 1 }}\nwindow = {window}\n")

    assert said.startswith(f'flyball.toml: budget[0].window{shown}: use "lifetime", or ')


@pytest.mark.parametrize(
    ("window", "said"),
    [
        ("last_s = 60, every_s = 60", ": use only one of every_s, last_s, calendar"),
        ('calendar = "day", every_s = 60', ": use only one of every_s, last_s, calendar"),
        (
            'every_s = 60, time_zone = "Europe/Berlin"',
            ".time_zone = 'Europe/Berlin': goes only with calendar",
        ),
        ("every_s = 60, buckets = 6", ".buckets = 6: goes only with last_s"),
        ('time_zone = "UTC"', ".time_zone = 'UTC': goes only with calendar"),
        ("last_s = 60, bucket = 6", ".bucket: there is no such key; did you mean 'buckets'?"),
    ],
)
def test_keys_that_make_no_window_together_are_told_apart(window: str, said: str) -> None:
    (line,) = refusal_of(BUDGET + f"limits = {{ turns = 1 }}\nwindow = {{ {window} }}\n")

    assert line == f"flyball.toml: budget[0].window{said}"


@pytest.mark.parametrize("name", ["a b/c", "-x", "-d", ".x", "", "x" * 65])
def test_an_id_that_nobody_could_write_into_a_path_is_refused_with_the_rule(name: str) -> None:
    text = f'[[budget]]\nid = "{name}"\nscope = "agent"\nlimits = {{ turns = 1 }}\n'

    (said,) = refusal_of(text)

    assert said == (
        f"flyball.toml: budget[0].id = {name!r}: use 1 to 64 letters, digits, '.', '_' and '-', "
        "of which the first is a letter or a digit"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("limits = {}", "budget[0].limits: should not be empty"),
        (
            'limits = { turns = 1 }\nmatch = { tool = "" }',
            "budget[0].match.tool = '': should not be empty",
        ),
    ],
)
def test_what_is_empty_is_told_so(line: str, said: str) -> None:
    assert refusal_of(BUDGET + line) == [f"flyball.toml: {said}"]


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("window = { every_s = 0 }", "window.every_s = 0"),
        ("window = { last_s = 60, buckets = 0 }", "window.buckets = 0"),
        ('window = { calendar = "year" }', "window.calendar = 'year'"),
        (
            'window = { calendar = "day", time_zone = "Mars/Base" }',
            "window.time_zone = 'Mars/Base'",
        ),
        ('kind = "bucket"', "kind = 'bucket'"),
        ("warn_at_permille = [1500]", "warn_at_permille[0] = 1500"),
        ("burst = 0", "burst = 0"),
        ('mode = "watch"', "mode = 'watch'"),
        ('overdraft = "always"', "overdraft = 'always'"),
        ('match = { tols = "x" }', "match.tols"),
    ],
)
def test_a_budgets_terms_are_checked_by_name(line: str, field: str) -> None:
    (said,) = refusal_of(BUDGET + f"limits = {{ turns = 1 }}\n{line}\n")

    assert said.startswith(f"flyball.toml: budget[0].{field}: ")


@pytest.mark.requirement("input.budget-matches-nothing")
@pytest.mark.parametrize("part", ["tool", "upstream", "tier"])
def test_a_budget_for_what_is_not_configured_is_refused(part: str) -> None:
    (said,) = refusal_of(BUDGET + f'limits = {{ turns = 1 }}\nmatch = {{ {part} = "nosuch" }}\n')

    assert f"match.{part}: no " in said
    assert "'nosuch'" in said


def test_patterns_and_what_is_configured_are_let_through() -> None:
    text = (
        '[[upstream]]\nname = "files"\nurl = "http://127.0.0.1:9/mcp"\n'
        + BUDGET
        + 'limits = { turns = 1 }\nmatch = { tool = "files__read", upstream = "f*", tier = "x*" }\n'
    )

    (budget,) = parse_config(text, source="flyball.toml").budget

    assert (budget.match.tool, budget.match.upstream) == ("files__read", "f*")


def test_a_session_is_not_budgeted_by_the_name_that_an_agent_gives_it() -> None:
    (said,) = refusal_of(
        '[[budget]]\nid = "a"\nscope = "session"\nsubject = "nightly"\nlimits = { turns = 1 }\n'
    )

    assert said.startswith("flyball.toml: budget[0]: subject = 'nightly' is no session's id (ses_")
