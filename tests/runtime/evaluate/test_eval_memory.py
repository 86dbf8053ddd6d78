"""Memory is measured by the protocol and printed as the interfaces say."""

import json
from math import log2
from pathlib import Path
from typing import Any

import pytest

from governor.retrieval.ranker import PLAIN_RANKER
from runtime.cli import eval as command
from runtime.configuration.model import SessionTable
from runtime.errors import RuntimeFaultError
from runtime.evaluate.memory.conversations import (
    Conversation,
    ConversationsFileError,
    Question,
    Turn,
    read_conversations,
)
from runtime.evaluate.memory.evaluation import TooFewConversationsError, evaluate
from runtime.evaluate.memory.figures import main_of, score
from runtime.evaluate.memory.learning import left_out_rankings, ranker_of
from runtime.evaluate.memory.messages import IDLE_MS, read_messages, recall_of
from runtime.evaluate.memory.shelves import shelved
from runtime.settings import Settings
from tests.runtime.evaluate.test_eval_command import arguments_of

KEYS = ["recall@5", "recall@10", "ndcg@10", "mrr", "recall@512tokens"]
PLACES = ["harbour", "market", "library", "museum", "forest", "station"]


def sample(at: int) -> dict[str, Any]:
    turns = [
        {"speaker": ("Ann", "Bob")[number % 2], "dia_id": f"D1:{number + 1}", "text": text}
        for number, text in enumerate(
            text
            for place in PLACES
            for text in (f"Did you ever see the {place}{at}?", "Yes, it was lovely on Monday.")
        )
    ]
    turns[0]["blip_caption"] = "a boat"
    questions = [
        {
            "question": f"When did Bob see the {place}{at}?",
            "category": 1 + number % 5,
            "evidence": [f"D1:{2 * number + 2}"],
        }
        for number, place in enumerate(PLACES)
    ]
    odd = {"question": "Odd?", "category": 4, "evidence": ["D:1:01; D1:02", "D9:9"]}
    none = {"question": "None?", "category": 4, "evidence": ["D7:1"]}
    return {
        "sample_id": f"c{at}",
        "conversation": {"session_1": turns, "session_1_date_time": "noon", "speaker_a": "Ann"},
        "qa": [*questions, odd, none],
    }


@pytest.fixture(name="file")
def conversations_file(tmp_path: Path) -> Path:
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([sample(at) for at in range(3)]), encoding="utf-8")
    return path


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert command.run(arguments_of("--json", "memory", *words), Settings()) == 0
    shape: dict[str, Any] = json.loads(capsys.readouterr().out)
    return shape


@pytest.mark.requirement("eval.memory")
def test_the_interfaces_json_is_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = printed(capsys, "--locomo", str(file))

    assert list(shape) == ["main", "no_model", "n"]
    assert list(shape["main"]) == list(shape["no_model"]) == KEYS
    assert shape["n"] == 3 * 6
    assert shape["main"]["recall@10"] > 0.9


@pytest.mark.requirement("eval.memory")
def test_what_learning_adds_is_printed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shape = printed(capsys, "--locomo", str(file), "--learned")

    assert list(shape["learned"]) == list(shape["learned_no_model"]) == KEYS
    assert shape["learned"]["recall@10"] > 0.9
    command.run(arguments_of("memory", "--locomo", str(file), "--learned"), Settings())
    assert "learned, no model" in capsys.readouterr().out


def test_evidence_is_mended_and_questions_without_any_are_left_out(file: Path) -> None:
    conversation = read_conversations(file)[0]

    assert len(conversation.questions) == 7
    assert conversation.questions[-1].evidence == {"D1:1", "D1:2"}
    assert conversation.turns[0].text.endswith("[image: a boat]")
    # Ann, did, you, ever, see, the, harbour0, image, a, boat: ten words of 1.35 tokens.
    assert conversation.turns[0].tokens == round(10 * 1.35)


def test_figures_are_those_of_the_protocol() -> None:
    turns = tuple(
        Turn(turn_id=f"t{at}", speaker="", session="1", text="", tokens=200) for at in range(60)
    )
    question = Question(text="", kind=2, evidence=frozenset({"t1", "t7", "t55"}))
    conversation = Conversation(name="", turns=turns, questions=(question,))

    figures = score([conversation], [[[turn.turn_id for turn in turns]]])
    means = main_of(figures).means()

    assert means["recall@5"] == pytest.approx(1 / 3)
    assert means["recall@10"] == pytest.approx(2 / 3)
    assert means["mrr"] == pytest.approx(1 / 2)
    assert means["ndcg@10"] == pytest.approx(
        (1 / log2(3) + 1 / log2(9)) / (1 + 1 / log2(3) + 1 / log2(4))
    )
    # Two turns of 200 tokens fit into 512: t0 and t1.
    assert means["recall@512tokens"] == pytest.approx(1 / 3)
    assert figures.interval("mrr", seed=1) == (0.5, 0.5)


@pytest.mark.requirement("eval.memory-never-peeks")
def test_no_answer_of_the_conversation_that_is_tried_is_learned_from(file: Path) -> None:
    conversations = read_conversations(file)
    turned = Conversation(
        name="turned",
        turns=conversations[0].turns,
        questions=tuple(
            Question(text=one.text, kind=one.kind, evidence=frozenset({"D1:1"}))
            for one in conversations[0].questions
        ),
    )

    honest, misled = (
        left_out_rankings([shelved(one, None) for one in some], before=PLAIN_RANKER)
        for some in (conversations, (turned, *conversations[1:]))
    )

    assert honest[0] == misled[0]
    assert honest[1] != misled[1]


def test_nothing_is_learned_of_nothing() -> None:
    assert ranker_of([], before=PLAIN_RANKER) is PLAIN_RANKER


def test_one_conversation_cannot_be_left_out(file: Path) -> None:
    alone = read_conversations(file)[:1]

    with pytest.raises(TooFewConversationsError):
        evaluate(alone, ranker=PLAIN_RANKER, vectors=None, learned=True)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is no JSON"),
        ("{}", "is no list"),
        ("[]", "no question"),
        ('{"a": []}', 'is no list of objects with "conversation"'),
        ('{"a": 1}\n{"a": 2', "line 2: "),
        ('[{"conversation": {}, "qa": [{"category": true, "question": ""}]}]', "no whole number"),
        ("[1]", "conversation 1: is no object"),
        ('[{"conversation": {}, "qa": [1]}]', "qa 1: is no object"),
        ('[{"conversation": {}, "qa": [{"category": 1}]}]', "question is no text"),
        ('[{"conversation": {"session_1": [{"speaker": 1}]}, "qa": []}]', "turn 1: speaker"),
        ("\x00\xff", "is no JSON"),
    ],
)
def test_a_file_that_is_not_usable_is_refused_by_place(
    tmp_path: Path, text: str, says: str
) -> None:
    path = tmp_path / "odd.json"
    path.write_bytes(text.encode("latin-1"))

    with pytest.raises(ConversationsFileError, match=says):
        read_conversations(path)


@pytest.mark.requirement("eval.memory")
def test_a_file_is_a_list_an_object_or_one_on_each_line(tmp_path: Path, file: Path) -> None:
    whole = read_conversations(file)
    lines, mark, one = tmp_path / "lines.jsonl", tmp_path / "marked.json", tmp_path / "one.json"
    lines.write_text("\n\n".join(json.dumps(sample(at)) for at in range(3)) + "\n")
    mark.write_text("\ufeff" + file.read_text(), encoding="utf-8")
    one.write_text(json.dumps(sample(0), indent=1))

    assert read_conversations(lines) == read_conversations(mark) == whole
    assert read_conversations(one) == whole[:1]


@pytest.mark.requirement("eval.memory")
def test_what_is_odd_in_a_file_but_can_be_read_is_read(tmp_path: Path) -> None:
    odd = sample(0)
    odd["conversation"]["session_1"][0]["text"] = None
    odd["qa"] = [
        {"question": one["question"], "category": "4", "evidence": "; ".join(one["evidence"])}
        for one in sample(0)["qa"]
    ]
    path = tmp_path / "odd.json"
    path.write_text(json.dumps([odd]))

    conversation = read_conversations(path)[0]

    assert conversation.turns[0].text == " [image: a boat]"
    assert {question.kind for question in conversation.questions} == {4}
    assert [one.evidence for one in conversation.questions[:2]] == [{"D1:2"}, {"D1:4"}]


@pytest.mark.requirement("eval.memory")
def test_two_turns_of_one_name_count_once(tmp_path: Path) -> None:
    odd = sample(0)
    odd["conversation"]["session_1"].append(odd["conversation"]["session_1"][1])
    path = tmp_path / "odd.json"
    path.write_text(json.dumps([odd]))

    conversations = read_conversations(path)
    rankings = shelved(conversations[0], None).rankings(PLAIN_RANKER)

    assert all(len(set(ranking)) == len(ranking) for ranking in rankings)
    assert max(score(conversations, [rankings]).means().values()) <= 1


@pytest.mark.requirement("eval.memory")
def test_questions_about_what_was_never_said_alone_are_no_measure(tmp_path: Path) -> None:
    odd = sample(0)
    odd["qa"] = [one for one in odd["qa"] if one["category"] == 5]
    path = tmp_path / "odd.json"
    path.write_text(json.dumps([odd]))

    with pytest.raises(ConversationsFileError, match="no question of the categories 1 to 4"):
        read_conversations(path)


def test_a_file_must_be_named_and_be_there(tmp_path: Path) -> None:
    with pytest.raises(RuntimeFaultError, match="--locomo"):
        command.run(arguments_of("memory"), Settings())
    with pytest.raises(ConversationsFileError, match="cannot be read"):
        read_conversations(tmp_path / "none.json")


@pytest.mark.requirement("memory.found-in-chinese")
def test_chinese_messages_are_found_by_a_question(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = ["我住的小区叫绿洲家园", "我表弟在杭州上班", "会议在星期五下午", "他喜欢打篮球"]
    texts += ["天气很好", "午饭吃面条", "她的生日是二月五号", "今天很忙"]
    trajectory = {
        "tid": 1,
        "message_list": [{"mid": at, "message": text} for at, text in enumerate(texts)],
        "question_list": [
            {"question": "我住的小区叫什么名字?", "target_step_id": [0]},
            {"question": "她的生日是几号?", "target_step_id": [6, 99]},
        ],
    }
    path = tmp_path / "messages.json"
    path.write_text(json.dumps([trajectory]), encoding="utf-8")

    assert recall_of(read_messages(path), ranker=PLAIN_RANKER, vectors=None) == 1.0
    shape = printed(capsys, "--memdaily", str(path))
    assert shape == {"memdaily": {"recall@5": 1.0, "files": {"messages.json": 1.0}}}


@pytest.mark.parametrize(
    ("times", "sessions"),
    [
        (("2024年04月01日 周一 08:12", "2024年04月01日 周一 08:41"), ["1", "1"]),
        (("2024年04月01日 周一 08:12", "2024年04月01日 周一 08:43"), ["1", "2"]),
        (("2024-04-01T08:12:30Z", "2024-04-02 08:12"), ["1", "2"]),
        (("2024年04月02日", "2024年04月01日"), ["1", "2"]),
        (("2024年06月31日 周一 08:12", "2024年04月01日 周一 08:43"), ["1", "1"]),
        ((None, "2024年04月01日 周一 08:43"), ["1", "1"]),
        ((17, "soon"), ["1", "1"]),
    ],
)
def test_messages_told_long_after_one_another_are_of_two_sessions(
    tmp_path: Path, times: tuple[object, ...], sessions: list[str]
) -> None:
    messages = [{"mid": at, "message": "好", "time": time} for at, time in enumerate(times)]
    question = {"question": "好?", "target_step_id": [0]}
    path = tmp_path / "messages.json"
    path.write_text(json.dumps([{"message_list": messages, "question_list": [question]}]))

    (conversation,) = read_messages(path)

    assert [turn.session for turn in conversation.turns] == sessions
    assert SessionTable().idle_s * 1_000 == IDLE_MS


@pytest.mark.parametrize(
    ("trajectories", "says"),
    [
        ({}, 'is no list of objects with "message_list"'),
        ([], "no question"),
        ([{"tid": 1}], "trajectory 1: message_list: is no list"),
        ([1], "trajectory 1: is no object"),
        ([{"message_list": [{"message": "a"}]}], "message 1: mid is not there"),
        ([{"message_list": [{"mid": 1, "message": None}]}], "message 1: message is no text"),
        ([{"message_list": [], "question_list": [{"question": "?"}]}], "question 1: target"),
    ],
)
def test_messages_that_are_not_usable_are_refused_by_place(
    tmp_path: Path, trajectories: object, says: str
) -> None:
    path = tmp_path / "messages.json"
    path.write_text(json.dumps(trajectories), encoding="utf-8")

    with pytest.raises(ConversationsFileError, match=rf"messages\.json.*{says}"):
        read_messages(path)
