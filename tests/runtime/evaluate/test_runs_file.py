from pathlib import Path

import pytest

from governor.turns import PastRun
from runtime.evaluate.runs_file import RecordedRun, RunsFileError, read_runs

HEADER = "model,instance_id,resolved,cost_usd,api_calls\n"
GOOD = "m,repo__task-1,1,0.25,14\n"


def file_of(folder: Path, text: str) -> Path:
    path = folder / "runs.csv"
    path.write_bytes(text.encode())
    return path


def test_runs_are_read_with_their_cost_in_whole_micro_units(tmp_path: Path) -> None:
    path = file_of(tmp_path, HEADER + "m,t,1,0.22785100000000003,14\n\nm,u,False,1e-3,7.0\n")

    assert read_runs(path) == [
        RecordedRun(
            model="m",
            instance_id="t",
            run=PastRun(turns=14, cost_microusd=227_851, is_solved=True),
        ),
        RecordedRun(
            model="m", instance_id="u", run=PastRun(turns=7, cost_microusd=1_000, is_solved=False)
        ),
    ]


def test_columns_in_another_order_and_columns_unknown_are_no_obstacle(tmp_path: Path) -> None:
    text = "\ufeffapi_calls, cost_usd,note,resolved,instance_id,model\r\n3,0,hm,0,t,m\r\n"

    assert read_runs(file_of(tmp_path, text))[0].run.turns == 3


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("m,t,1,0.25,many\n", "line 3, column api_calls: 'many' is not a whole number"),
        ("m,t,1,0.25,1.5\n", "line 3, column api_calls"),
        ("m,t,1,0.25,0\n", "line 3, column api_calls: '0' is not between 1"),
        ("m,t,1,0.25,-4\n", "line 3, column api_calls"),
        ("m,t,1,0.25,1e9\n", "line 3, column api_calls"),
        ("m,t,1,NaN,4\n", "line 3, column cost_usd: 'NaN' is not a number"),
        ("m,t,1,inf,4\n", "line 3, column cost_usd"),
        ("m,t,1,sNaN,4\n", "line 3, column cost_usd"),
        ("m,t,1,-0.1,4\n", "line 3, column cost_usd"),
        ("m,t,1,,4\n", "line 3, column cost_usd"),
        ("m,t,1,1e999999,4\n", "line 3, column cost_usd"),
        ("m,t,maybe,0.1,4\n", "line 3, column resolved: 'maybe'"),
        (",t,1,0.1,4\n", "line 3, column model: is empty"),
        ("m, ,1,0.1,4\n", "line 3, column instance_id: is empty"),
        ("m" * 501 + ",t,1,0.1,4\n", "line 3, column model"),
        ("m,t,1\n", "line 3: has 3 columns, the header 5"),
        ('m,"t,1,0.1,4\n', "line 3"),
    ],
)
def test_a_line_that_is_not_usable_is_named_with_its_column(
    tmp_path: Path, line: str, told: str
) -> None:
    path = file_of(tmp_path, HEADER + GOOD + line)

    with pytest.raises(RunsFileError) as caught:
        read_runs(path)

    assert f"{path}, {told}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "line 1: column model, instance_id, resolved, cost_usd, api_calls is missing"),
        ("model,instance_id,resolved,api_calls\n", "line 1: column cost_usd is missing"),
        ("model," + HEADER, "line 1: column model is there twice"),
        (HEADER, "line 2: no runs follow"),
    ],
)
def test_a_header_that_is_not_usable_is_named(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(RunsFileError, match=told):
        read_runs(file_of(tmp_path, text))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"

    with pytest.raises(RunsFileError, match=r"runs\.csv: No such file"):
        read_runs(path)
    path.write_bytes(HEADER.encode() + b"m,\xff,1,1,1\n")
    with pytest.raises(RunsFileError, match="UTF-8"):
        read_runs(path)
    with pytest.raises(RunsFileError, match="Is a directory"):
        read_runs(tmp_path)
