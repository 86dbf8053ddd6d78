"""Tool search is measured as the interfaces say, and compared in the same run."""

import json
from math import log2
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.cli import eval as command
from runtime.evaluate.tools import (
    interval,
    learned_recalls,
    measure,
    own_search,
    plain_bm25,
)
from runtime.evaluate.tools_files import Corpus, Step
from runtime.settings import Settings
from tests.runtime.evaluate.test_eval_command import arguments_of
from tests.runtime.evaluate.test_tools_files import lines_of
from tool_gateway.discovery.texts import ToolText

KEYS = [
    *("recall@1", "recall@5", "recall@10", "ndcg@10", "recall@5_ci95"),
    *("mean_tools_shown", "p50_ms", "n"),
]


def step(*groups: str) -> Step:
    return Step(request="x", wanted=tuple(frozenset(group.split("|")) for group in groups))


def ticking() -> int:
    ticking.now += 2_000_000  # type: ignore[attr-defined]
    now: int = ticking.now  # type: ignore[attr-defined]
    return now


ticking.now = 0  # type: ignore[attr-defined]


@pytest.mark.requirement("eval.tools")
def test_each_step_is_scored_by_the_rank_of_what_it_wants() -> None:
    ranking = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k"]
    steps = [step("a"), step("z|f|g"), step("k"), step("b", "z")]

    measured = measure(lambda _: ranking, steps, timer=ticking)

    assert list(measured.recalls[1]) == [1, 0, 0, 0]
    assert list(measured.recalls[5]) == [1, 0, 0, 0.5]
    assert list(measured.recalls[10]) == [1, 1, 0, 0.5]
    both = (1 / log2(3)) / (1 + 1 / log2(3))
    assert list(measured.ndcgs) == pytest.approx([1, 1 / log2(7), 0, both])
    assert list(measured.shown) == [5, 5, 5, 5]
    shape = measured.shape(seed=0)
    assert list(shape) == KEYS
    assert (shape["n"], shape["p50_ms"], shape["recall@5"]) == (4, 2.0, 0.375)


def test_a_search_that_finds_little_shows_little() -> None:
    measured = measure(lambda _: ["a"], [step("b")], timer=ticking)

    assert measured.shape(seed=0)["mean_tools_shown"] == 1


@pytest.mark.requirement("eval.tools")
def test_the_gain_is_paired_step_by_step() -> None:
    steps = [step("a")] * 50 + [step("b")] * 50
    better = measure(lambda _: ["a", "b"], steps, timer=ticking)
    worse = measure(lambda _: ["a"], steps, timer=ticking)

    gain, (low, high) = better.gain_over(worse, seed=0)

    assert gain == 0.5
    assert 0.3 < low < 0.5 < high < 0.7
    assert better.gain_over(better, seed=0) == (0, (0, 0))


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=1, max_size=20), st.integers(0, 3))
def test_an_interval_is_in_order_and_the_same_again(values: list[float], seed: int) -> None:
    low, high = interval(values[:20], seed=seed)

    assert min(values) <= low <= high <= max(values)
    assert (low, high) == interval(values, seed=seed)


def a_corpus(*names: str) -> Corpus:
    return Corpus(
        ids=names,
        texts=tuple(ToolText(name=name, description="", server="s", schema={}) for name in names),
    )


def test_the_search_finds_what_plain_words_miss() -> None:
    corpus = a_corpus("delete_picture", "send_mail")

    assert own_search(corpus)("remove an image")[0] == "delete_picture"
    assert plain_bm25(corpus)("remove an image") == []
    assert plain_bm25(corpus)("Send it")[0] == "send_mail"


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    tools = [{"id": name, "name": name} for name in ("delete_picture", "send_mail")]
    asked = [
        {"query": "remove an image", "gold": ["delete_picture"]},
        {"query": "send a mail", "gold": [["send_mail"]]},
    ]
    corpus = lines_of(tmp_path, *tools)
    queries = lines_of(tmp_path, *asked, name="queries.jsonl")
    return ["tools", "--corpus", str(corpus), "--queries", str(queries)]


@pytest.mark.requirement("eval.tools")
def test_one_json_object_has_exactly_the_promised_keys(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run(arguments_of(*words, "--json"), Settings()) == 0

    shape = json.loads(capsys.readouterr().out)
    assert list(shape) == KEYS
    assert (shape["recall@1"], shape["recall@5_ci95"], shape["n"]) == (1.0, [1.0, 1.0], 2)


def test_the_baseline_is_measured_in_the_same_run(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command.run(arguments_of(*words, "--json", "--baseline"), Settings())

    baseline = json.loads(capsys.readouterr().out)["baseline"]
    assert (baseline["recall@5"], baseline["gain@5"]) == (0.5, 0.5)


def test_the_table_names_both_searches_and_their_difference(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command.run(arguments_of(*words, "--baseline"), Settings())

    told = capsys.readouterr().out
    assert "2 steps over 2 tools:" in told
    assert "plain BM25" in told
    assert "It is +0.500 above plain BM25" in told


def test_a_line_learns_from_the_other_lines_and_not_from_itself() -> None:
    corpus = a_corpus("delete_picture", "send_mail")
    wanted = (frozenset({"delete_picture"}),)
    steps = [
        Step(request="delete gizmo", wanted=wanted, line=1),
        Step(request="gizmo", wanted=wanted, line=2),
        Step(request="gadget", wanted=wanted, line=3),
    ]

    measured = learned_recalls(corpus, steps)

    assert list(measure(own_search(corpus), steps, timer=ticking).recalls[1]) == [1, 0, 0]
    assert list(measured.recalls[1]) == [1, 1, 0]


def test_what_is_learned_is_measured_beside(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command.run(arguments_of(*words, "--json", "--learned"), Settings())

    learned = json.loads(capsys.readouterr().out)["learned"]
    assert learned == {"recall@1": 1, "recall@5": 1, "recall@10": 1, "ndcg@10": 1}
