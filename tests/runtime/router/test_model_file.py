"""A router's file is believed only if it is whole, known and of these features."""

import json
import struct
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.router.model_file import (
    ModelFileError,
    NewerModelFileError,
    OlderModelFileError,
    OtherFeaturesError,
    load,
    packed,
    save,
    unpacked,
)
from runtime.router.predictor import RouterModel, fit
from runtime.word_vectors import word_vectors
from tests.runtime.router.outcome_rows import rows


@pytest.fixture(scope="module")
def model() -> RouterModel:
    return fit(rows(60), tiers=("low", "high"), vectors=None)


def signed(body: bytes) -> bytes:
    return body + sha256(body).digest()


def test_a_router_is_read_as_it_was_written(model: RouterModel, tmp_path: Path) -> None:
    path = tmp_path / "router.model"

    save(model, path)
    again = load(path, vectors=None)

    text = "castle integral river"
    assert again.predict(text).tiers == model.predict(text).tiers
    assert np.array_equal(again.predict(text).context, model.predict(text).context)
    forecast = model.predict(text)
    assert again.intervals(forecast) == model.intervals(forecast)
    assert (again.tiers, again.fitted_rows) == (("low", "high"), 60)
    assert [each.name for each in tmp_path.iterdir()] == ["router.model"]


@pytest.mark.requirement("router.file-is-checked")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_one_wrong_bit_is_noticed(model: RouterModel, place: float, bit: int) -> None:
    content = bytearray(packed(model))
    content[int(place * len(content))] ^= 1 << bit

    with pytest.raises(ModelFileError):
        unpacked(bytes(content), vectors=None)


@pytest.mark.requirement("router.file-is-checked")
@pytest.mark.parametrize("kept", [0, 1, 15, 47, 1_000, -1])
def test_a_file_cut_short_is_refused(model: RouterModel, kept: int) -> None:
    with pytest.raises(ModelFileError):
        unpacked(packed(model)[:kept], vectors=None)


@pytest.mark.requirement("router.file-is-checked")
def test_a_file_of_an_older_flyball_says_what_to_do(model: RouterModel) -> None:
    content = packed(model)
    older = content[:8] + struct.pack("<I", 1) + content[12:-32]

    with pytest.raises(OlderModelFileError, match="version 1: fit the router again"):
        unpacked(signed(older), vectors=None)


@pytest.mark.requirement("router.file-is-checked")
def test_a_file_of_a_newer_flyball_says_so(model: RouterModel, tmp_path: Path) -> None:
    content = packed(model)
    newer = content[:8] + struct.pack("<I", 3) + content[12:-32]
    path = tmp_path / "router.model"
    path.write_bytes(signed(newer))

    with pytest.raises(NewerModelFileError, match="version 3, and this Flyball reads 2"):
        load(path, vectors=None)


def test_a_file_of_other_features_is_refused(model: RouterModel) -> None:
    with pytest.raises(OtherFeaturesError):
        unpacked(packed(model), vectors=word_vectors())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tiers", ["low"]),
        ("tiers", []),
        ("tiers", "lo"),
        ("doubt_of", [0, 7]),
        ("quality", {"shares": {"meaning": 1.0}, "strength": 1.0}),
        ("widths", {"meaning": 0, "words": 512, "form": 1, "state": 6}),
        ("arrays", [["middle", "object", [0]]]),
        ("arrays", [["middle", "float64", [-5]]]),
        ("arrays", 3),
    ],
)
def test_a_header_that_does_not_fit_is_refused(model: RouterModel, key: str, value: object) -> None:
    content = packed(model)[:-32]
    name, version, size = struct.unpack_from("<8sII", content)
    header = json.loads(content[16 : 16 + size]) | {key: value}
    text = json.dumps(header).encode()
    body = struct.pack("<8sII", name, version, len(text)) + text + content[16 + size :]

    with pytest.raises(ModelFileError):
        unpacked(signed(body), vectors=None)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read"):
        load(tmp_path / "none.model", vectors=None)
