"""Tokenizers of every kind that models have, trained in a second on this project's own words."""

import base64
import json
from collections import Counter
from pathlib import Path

import pytest

tokenizers = pytest.importorskip("tokenizers", reason="the extra flyball[tokenizers]")
from tokenizers import (  # noqa: E402
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

_ROOT = Path(__file__).parents[4]
_STRANGE = (
    "数据库里的文字 한국어 문장 Ünïcödé naïve façade Ελληνικά кириллица 👩‍👩‍👧 ﷺ "
    '{"path": "/tmp/a.txt", "lines": [1, 2, 3]}\n    def f(x):\n        return x\n'
    + "".join("\n" + "    " * depth + "1," for depth in range(6))
)
BYTE_LEVEL, BYTES_ALONE, FALLS_BACK, UNIGRAM, WORD_PIECE = (
    "byte_level", "bytes_alone", "falls_back", "unigram", "word_piece",
)  # fmt: skip
KINDS = (BYTE_LEVEL, BYTES_ALONE, FALLS_BACK, UNIGRAM, WORD_PIECE)
RANKS = "o200k_small.tiktoken"


def corpus() -> list[str]:
    return [(_ROOT / "README.md").read_text(), _STRANGE * 20]


def trained(kind: str) -> Tokenizer:
    return {
        BYTE_LEVEL: _byte_level,
        BYTES_ALONE: _bytes_alone,
        FALLS_BACK: _falls_back,
        UNIGRAM: _unigram,
        WORD_PIECE: _word_piece,
    }[kind]()


def write_ranks(folder: Path) -> Path:
    """Write a file of ranks: all bytes, then the pairs that are most frequent."""
    content = "".join(corpus()).encode()
    pairs = Counter(content[at : at + 2] for at in range(len(content) - 1))
    tokens = [bytes([value]) for value in range(256)]
    tokens += [pair for pair, _ in pairs.most_common(400)]
    lines = [f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(tokens)]
    file = folder / RANKS
    file.write_text("\n".join(lines) + "\n")
    return file


def _byte_level() -> Tokenizer:
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=2_000, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(corpus(), trainer)
    return made


def _bytes_alone() -> Tokenizer:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    vocab = {character: number for number, character in enumerate(sorted(alphabet))}
    made = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return made


def _falls_back() -> Tokenizer:
    taught = Tokenizer(models.BPE(unk_token="<unk>"))
    # Runs of spaces are tokens of their own, as in every vocabulary that has read code.
    taught.pre_tokenizer = pre_tokenizers.Split(Regex("▁+|[^▁]+"), "isolated")
    taught.normalizer = normalizers.Replace(" ", "▁")
    special = ["<unk>", "<s>", "</s>", *(f"<0x{value:02X}>" for value in range(256))]
    trainer = trainers.BpeTrainer(
        vocab_size=1_500, special_tokens=special, show_progress=False, limit_alphabet=120
    )
    taught.train_from_iterator(corpus(), trainer)
    # The bytes are what a text falls back to, and no text of their own.
    vocab = taught.get_vocab()
    merges = [
        tuple(pair) if not isinstance(pair, str) else tuple(pair.split(" "))
        for pair in json.loads(taught.to_str())["model"]["merges"]
    ]
    made = Tokenizer(models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", byte_fallback=True))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return made


def _unigram() -> Tokenizer:
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC()])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    special = ["<unk>", *(f"<0x{value:02X}>" for value in range(256))]
    trainer = trainers.UnigramTrainer(
        vocab_size=1_200, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(corpus(), trainer)
    return made


def _word_piece() -> Tokenizer:
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=1_500, special_tokens=["[UNK]"], show_progress=False
    )
    made.train_from_iterator(corpus(), trainer)
    return made
