"""Standard input and output that are no pipes."""

import os
from pathlib import Path

import anyio
import pytest

from tool_gateway.front.standard_pipes import LinesIn, TextOut

pytestmark = pytest.mark.anyio


async def test_an_input_that_is_nothing_has_no_lines() -> None:
    fd = os.open(os.devnull, os.O_RDONLY)
    try:
        with anyio.fail_after(60):
            assert [line async for line in LinesIn(fd)] == []
    finally:
        os.close(fd)


async def test_an_output_that_is_nowhere_takes_every_text() -> None:
    fd = os.open(os.devnull, os.O_WRONLY)
    try:
        with anyio.fail_after(60):
            await TextOut(fd).write("x" * 100_000)
    finally:
        os.close(fd)


async def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("one\ntwo\nwithout an end")
    fd = os.open(tmp_path / "in", os.O_RDONLY)
    try:
        with anyio.fail_after(60):
            assert [line.strip() async for line in LinesIn(fd)] == ["one", "two"]
    finally:
        os.close(fd)


async def test_a_pipe_is_waited_for() -> None:
    reading, writing = os.pipe()
    try:
        lines = LinesIn(reading)
        with anyio.move_on_after(0.05) as waiting:
            await anext(lines)
        os.write(writing, b"one\n")
        with anyio.fail_after(60):
            said = await anext(lines)
    finally:
        os.close(reading)
        os.close(writing)

    assert waiting.cancelled_caught
    assert said.strip() == "one"
