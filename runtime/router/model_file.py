"""The bytes that a fitted router is kept in: versioned, checked, safe to read.

A name and a version, the length of a header, the header in JSON, the arrays one behind the other,
and a SHA-256 of all of that. Reading it runs nothing: the header is numbers and names, the arrays
are bytes. A file that is damaged, cut short, of a newer Flyball, or learned with other features
is refused with its reason, and the tier rules go on deciding.
"""

import json
import os
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, fields
from hashlib import sha256
from math import prod
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import numpy as np
import numpy.typing as npt

from governor.learning.blocks import BlockScaling, Shares, Widths
from governor.learning.calibration import BINS, Calibration
from governor.learning.likeness import Landmarks
from governor.learning.linear import Scaling
from governor.learning.surface import Surface
from governor.learning.tier_model import LANDMARKS_MAX, TierModel
from governor.retrieval.vectors import StaticVectors
from runtime.errors import RuntimeFaultError
from runtime.router.features import FEATURES_VERSION, PromptReader
from runtime.router.predictor import RouterModel

VERSION = 2
BYTES_MAX = 64 * 1024 * 1024
_FORMAT = b"FLYROUTE"
_BEGIN = struct.Struct("<8sII")
_DIGEST_BYTES = 32
_TIERS_MAX = 64
_AXES_MAX = 4_096

Array = npt.NDArray[np.float32] | npt.NDArray[np.float64]


class ModelFileError(RuntimeFaultError):
    """A router file is not usable: it is damaged, cut short or of another kind."""


class NewerModelFileError(ModelFileError):
    """A router file is from a newer Flyball; start that one, or fit the router again."""


class OlderModelFileError(ModelFileError):
    """A router file is from an older Flyball and lacks what this one needs; fit it again."""


class OtherFeaturesError(ModelFileError):
    """A router file was fitted with other features or word vectors; fit the router again."""


def packed(model: RouterModel) -> bytes:
    """Return the bytes of a fitted router."""
    learned = model.learned
    arrays = _arrays(learned)
    header = {
        "tiers": list(model.tiers),
        "fitted_rows": model.fitted_rows,
        "features": FEATURES_VERSION,
        "widths": asdict(learned.scaling.widths),
        "quality": _stated(learned.quality),
        "cost": _stated(learned.cost),
        "doubt_of": list(learned.doubt_of),
        "arrays": [[name, str(each.dtype), list(each.shape)] for name, each in arrays.items()],
    }
    text = json.dumps(header, allow_nan=False).encode()
    content = b"".join(
        [
            _BEGIN.pack(_FORMAT, VERSION, len(text)),
            text,
            *(np.ascontiguousarray(each).tobytes() for each in arrays.values()),
        ]
    )
    return content + sha256(content).digest()


def unpacked(content: bytes, *, vectors: StaticVectors | None) -> RouterModel:
    """Return the router in these bytes.

    Raises:
        ModelFileError: the bytes are no router, or not all of it, or from a newer Flyball, or
            of one that was fitted with other features.
    """
    if len(content) < _BEGIN.size + _DIGEST_BYTES:
        raise ModelFileError("it is shorter than a router can be")
    name, version, header_bytes = _BEGIN.unpack_from(content)
    if name != _FORMAT:
        raise ModelFileError(f"it begins with {name!r}, not {_FORMAT!r}")
    if version < VERSION:
        raise OlderModelFileError(f"it has version {version}: fit the router again")
    if version > VERSION:
        raise NewerModelFileError(
            f"it has version {version}, and this Flyball reads {VERSION}: start the newer one, "
            "or fit the router again"
        )
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if sha256(body).digest() != digest:
        raise ModelFileError("its checksum is not that of its content: it is damaged or cut short")
    try:
        header = json.loads(body[_BEGIN.size : _BEGIN.size + header_bytes])
        arrays = _read_arrays(header["arrays"], body[_BEGIN.size + header_bytes :])
        return _model(header, arrays, vectors)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ModelFileError(f"its content does not fit together: {error}") from error


def save(model: RouterModel, path: Path) -> None:
    """Write a router to a file, all of it or nothing.

    Raises:
        ModelFileError: the file cannot be written.
    """
    try:
        with NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(packed(model))
                file.flush()
                os.fsync(file.fileno())
                Path(file.name).replace(path)
            except BaseException:
                with suppress(OSError):
                    Path(file.name).unlink()
                raise
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be written: {error.strerror}") from error


def load(path: Path, *, vectors: StaticVectors | None) -> RouterModel:
    """Return the router in a file.

    Raises:
        ModelFileError: the file cannot be read, or is no router that this Flyball can use.
    """
    try:
        with path.open("rb") as file:
            content = file.read(BYTES_MAX + 1)
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from error
    if len(content) > BYTES_MAX:
        raise ModelFileError(f"{path}: is larger than {BYTES_MAX} bytes")
    try:
        return unpacked(content, vectors=vectors)
    except ModelFileError as error:
        raise type(error)(f"{path}: is no usable router: {error}") from error


def _stated(surface: Surface) -> dict[str, Any]:
    return {"shares": asdict(surface.shares), "strength": surface.strength}


def _arrays(learned: TierModel) -> dict[str, Array]:
    scaling = learned.scaling
    return {
        "middle": scaling.middle,
        "rarity": scaling.rarity,
        "form_center": scaling.form.center,
        "form_spread": scaling.form.spread,
        "state_center": scaling.state.center,
        "state_spread": scaling.state.spread,
        "bounds": learned.bounds,
        "cost_bounds": learned.cost_bounds,
        "doubts": learned.doubts,
        "scatter": learned.scatter,
        **_calibration_arrays(learned.calibration),
        **_surface_arrays("quality", learned.quality),
        **_surface_arrays("cost", learned.cost),
    }


def _calibration_arrays(calibration: Calibration) -> dict[str, Array]:
    return {
        f"calibration_{one.name}": getattr(calibration, one.name) for one in fields(Calibration)
    }


def _surface_arrays(name: str, surface: Surface) -> dict[str, Array]:
    return {
        f"{name}_columns": surface.landmarks.columns,
        f"{name}_squares": surface.landmarks.squares,
        f"{name}_axes": surface.axes,
        f"{name}_levels": surface.levels,
        f"{name}_slopes": surface.slopes,
    }


def _read_arrays(stated: list[Any], content: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    begin = 0
    for name, kind, shape in stated:
        if kind not in {"float32", "float64"} or not all(isinstance(n, int) for n in shape):
            raise ValueError(f"array {name!r:.40} is not of numbers")
        count = prod(shape)
        size = count * np.dtype(kind).itemsize
        if min(shape, default=0) < 0 or begin + size > len(content):
            raise ValueError(f"array {name!r:.40} is not all there")
        # A copy, which lies where numbers can be read fast; the bytes need not.
        array = np.frombuffer(content, kind, count=count, offset=begin).reshape(shape).copy()
        if not np.isfinite(array).all():
            raise ValueError(f"array {name!r:.40} holds what is no number")
        found[name] = array
        begin += size
    if begin != len(content):
        raise ValueError("there is more than its arrays")
    return found


def _model(
    header: Mapping[str, Any], arrays: Mapping[str, Any], vectors: StaticVectors | None
) -> RouterModel:
    widths = Widths(**header["widths"])
    if header["features"] != FEATURES_VERSION or widths != PromptReader(vectors).widths:
        raise OtherFeaturesError
    tiers = header["tiers"]
    are_names = isinstance(tiers, list) and all(isinstance(tier, str) for tier in tiers)
    if not are_names or not 0 < len(tiers) <= _TIERS_MAX:
        raise ValueError("its tiers are not names")
    _check_shapes(arrays, widths, len(tiers), header["doubt_of"])
    learned = TierModel(
        scaling=BlockScaling(
            widths=widths,
            middle=arrays["middle"],
            rarity=arrays["rarity"],
            form=Scaling(center=arrays["form_center"], spread=arrays["form_spread"]),
            state=Scaling(center=arrays["state_center"], spread=arrays["state_spread"]),
        ),
        quality=_surface("quality", header, arrays),
        bounds=arrays["bounds"],
        cost=_surface("cost", header, arrays),
        cost_bounds=arrays["cost_bounds"],
        doubts=arrays["doubts"],
        doubt_of=tuple(header["doubt_of"]),
        scatter=arrays["scatter"],
        calibration=Calibration(
            **{one.name: arrays[f"calibration_{one.name}"] for one in fields(Calibration)}
        ),
    )
    rows = int(header["fitted_rows"])
    return RouterModel(tiers=tiers, fitted_rows=rows, learned=learned, vectors=vectors)


def _surface(name: str, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> Surface:
    return Surface(
        shares=Shares(**{block: float(n) for block, n in header[name]["shares"].items()}),
        strength=float(header[name]["strength"]),
        landmarks=Landmarks(columns=arrays[f"{name}_columns"], squares=arrays[f"{name}_squares"]),
        axes=arrays[f"{name}_axes"],
        levels=arrays[f"{name}_levels"],
        slopes=arrays[f"{name}_slopes"],
    )


def _check_shapes(
    arrays: Mapping[str, Any], widths: Widths, tiers: int, doubt_of: list[Any]
) -> None:
    """Refuse arrays that do not go together, before they are multiplied."""
    wanted: dict[str, tuple[int, ...]] = {
        "middle": (widths.meaning,),
        "rarity": (widths.words,),
        "form_center": (widths.form,),
        "form_spread": (widths.form,),
        "state_center": (widths.state,),
        "state_spread": (widths.state,),
        "bounds": (2, tiers),
        "cost_bounds": (2, tiers),
        "scatter": (tiers,),
        "calibration_slopes": (2,),
        "calibration_centers": (tiers,),
        "calibration_bounds": (2, tiers),
        "calibration_edges": (tiers, BINS - 1),
        "calibration_low": (tiers, BINS),
        "calibration_high": (tiers, BINS),
        "calibration_cost_low": (tiers,),
        "calibration_cost_high": (tiers,),
    }
    for name in ("quality", "cost"):
        landmarks, axes = arrays[f"{name}_axes"].shape
        if landmarks > LANDMARKS_MAX or axes > _AXES_MAX:
            raise ValueError("its landmarks and axes are out of range")
        wanted |= {
            f"{name}_columns": (widths.total, landmarks),
            f"{name}_squares": (landmarks,),
            f"{name}_levels": (tiers,),
            f"{name}_slopes": (axes, tiers),
        }
    for name, shape in wanted.items():
        if arrays[name].shape != shape:
            raise ValueError(f"array {name} has the shape {arrays[name].shape}, not {shape}")
    axes = arrays["quality_axes"].shape[1]
    seen = arrays["doubts"].shape[-1]
    if seen > axes or arrays["doubts"].shape[1:] != (seen, seen):
        raise ValueError("its doubts do not go with its axes")
    evidences = range(len(arrays["doubts"]))
    if len(doubt_of) != tiers or not all(at in evidences for at in doubt_of):
        raise ValueError("its doubts are not those of its tiers")
