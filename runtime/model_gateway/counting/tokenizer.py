"""The tokenizers of models, from files that tiers name; loaded when they are first needed.

Two kinds are read: a Hugging Face `tokenizer.json`, and a file of ranks as tiktoken has them.
Their libraries are extras: nothing imports them until a tier names such a file.
"""

import threading
from asyncio import CancelledError
from base64 import b64decode
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from runtime.model_gateway.errors import TokenizerError

# What one call may cost in time here is bounded; a longer text is counted by its bytes.
COUNTED_CHARS_MAX = 1 << 20
# No vocabulary known has a token of more bytes: the longest are runs of spaces.
TOKEN_BYTES_MAX = 256
_FILE_BYTES_MAX = 64 << 20
# What no library means where it raises.
_OURS = (CancelledError, GeneratorExit, KeyboardInterrupt, SystemExit)
_HUGGING_FACE = "tokenizers"
_TIKTOKEN = "tiktoken"

_CONTRACTION = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
_LOWER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
_UPPER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
# How a text is cut before its bytes are merged is not in a file of ranks, but in its name.
_CUTS = {
    "o200k": (
        rf"{_LOWER}{_CONTRACTION}|{_UPPER}{_CONTRACTION}"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "cl100k": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    "p50k": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    "r50k": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
}


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Counts the tokens of a text; `by_openai` tells whether it is one of OpenAI's."""

    _encode: Callable[[str], int]
    by_openai: bool

    def count(self, text: str) -> int:
        """Return how many tokens a text is; as many as its bytes where that cannot be told."""
        counted = None if len(text) > COUNTED_CHARS_MAX else self._counted(text)
        return _bytes_of(text) if counted is None else counted

    def count_min(self, text: str) -> int:
        """Return how many tokens a text is; the least that it can be where that cannot be told."""
        counted = self._counted(text)
        return -(-_bytes_of(text) // TOKEN_BYTES_MAX) if counted is None else counted

    def _counted(self, text: str) -> int | None:
        # Half of a pair is no text to any tokenizer; what it writes in its place is one character.
        whole = text if text.isascii() else text.encode(errors="replace").decode()
        try:
            return self._encode(whole)
        except _OURS:
            raise
        except BaseException:  # noqa: BLE001 - a panic of a compiled part is no Exception
            return None


class Tokenizers:
    """Keeps the tokenizers that were loaded, one for each file that a tier names."""

    def __init__(self) -> None:
        self._loading = threading.Lock()
        self._found: dict[str, Tokenizer | TokenizerError] = {}

    def ready(self, path: str) -> Tokenizer | None:
        """Return a tokenizer that was loaded before; never waits."""
        found = self._found.get(path)
        return found if isinstance(found, Tokenizer) else None

    def is_known(self, path: str) -> bool:
        """Tell whether a tokenizer was asked for before, whatever came of it."""
        return path in self._found

    def load(self, path: str) -> Tokenizer:
        """Return a tokenizer, from its file where nobody has asked before: that may take a second.

        Raises:
            TokenizerError: it cannot be read, now or when it was asked for first.
        """
        with self._loading:
            if path not in self._found:
                try:
                    self._found[path] = _loaded(path)
                except TokenizerError as error:
                    self._found[path] = error
            found = self._found[path]
        if isinstance(found, TokenizerError):
            raise found
        return found


# One for the process: the files are those of the configuration, and do not change under it.
TOKENIZERS = Tokenizers()


def check_tokenizer(path: str) -> None:
    """Check what can be told of a tokenizer without loading it.

    Raises:
        TokenizerError: there is no such file, its kind is unknown, or its library is not here.
    """
    file = Path(path)
    if not file.is_file():
        raise TokenizerError(f"{path}: no such file")
    if file.stat().st_size > _FILE_BYTES_MAX:
        raise TokenizerError(f"{path}: larger than {_FILE_BYTES_MAX} bytes")
    library = _TIKTOKEN if _is_of_ranks(file) else _HUGGING_FACE
    if library == _TIKTOKEN:
        _cut_of(file)
    if find_spec(library) is None:
        raise TokenizerError(
            f"{path}: the package {library!r} reads it and is not installed; pip install {library}"
        )


def _loaded(path: str) -> Tokenizer:
    check_tokenizer(path)
    file = Path(path)
    try:
        return _of_ranks(file) if _is_of_ranks(file) else _of_hugging_face(file)
    except _OURS:
        raise
    except BaseException as error:
        raise TokenizerError(f"{path}: not a tokenizer that can be read") from error


def _bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _is_of_ranks(file: Path) -> bool:
    return file.suffix != ".json"


def _of_hugging_face(file: Path) -> Tokenizer:
    found = import_module(_HUGGING_FACE).Tokenizer.from_file(str(file))
    # Both would change what is counted: a file may cut texts short, or fill them up.
    found.no_truncation()
    found.no_padding()
    return Tokenizer(
        lambda text: len(found.encode(text, add_special_tokens=False).ids), by_openai=False
    )


def _of_ranks(file: Path) -> Tokenizer:
    ranks: dict[bytes, int] = {}
    for line in file.read_bytes().splitlines():
        if line:
            token, rank = line.split()
            ranks[b64decode(token, validate=True)] = int(rank)
    found: Any = import_module(_TIKTOKEN).Encoding(
        name=file.stem, pat_str=_cut_of(file), mergeable_ranks=ranks, special_tokens={}
    )
    return Tokenizer(lambda text: len(found.encode_ordinary(text)), by_openai=True)


def _cut_of(file: Path) -> str:
    for name, cut in _CUTS.items():
        if file.name.startswith(name):
            return cut
    raise TokenizerError(
        f"{file}: expected a tokenizer.json, or a file of ranks whose name begins with "
        f"{', '.join(_CUTS)}"
    )
