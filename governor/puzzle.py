"""Picture puzzles in several steps: cheap to make and to check, some thought to solve.

A puzzle names words by pictures, joins and cuts them, and goes on from what came out. All of it
follows from a seed, so that nothing has to be kept to know the answer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b

HOPS_MAX = 12
_PICTURES = (
    *(("\U0001f41d", "bee"), ("\U0001f431", "cat"), ("\U0001f436", "dog"), ("\U0001f437", "pig")),
    *(("\U0001f404", "cow"), ("\U0001f411", "sheep"), ("\U0001f434", "horse")),
    *(("\U0001f40d", "snake"), ("\U0001f41f", "fish"), ("\U0001f98a", "fox")),
    *(("\U0001f333", "tree"), ("\U0001f339", "rose"), ("\U0001f344", "mushroom")),
    *(("\U0001f34e", "apple"), ("\U0001f34b", "lemon"), ("\U0001f34c", "banana")),
    *(("\U0001f95a", "egg"), ("\U0001f35e", "bread"), ("\U0001f9c0", "cheese")),
    *(("\U0001f511", "key"), ("\U0001f514", "bell"), ("\U0001f6aa", "door")),
    *(("\u2602", "umbrella"), ("\u2693", "anchor"), ("\u2b50", "star"), ("\U0001f319", "moon")),
    *(("\U0001f525", "fire"), ("\u26c4", "snowman"), ("\U0001f308", "rainbow")),
    *(("\U0001f682", "train"), ("\U0001f697", "car"), ("\u26f5", "boat")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Puzzle:
    """What is asked, and the one answer: small letters without spaces."""

    text: str
    answer: str

    def is_solved_by(self, answer: str) -> bool:
        """Tell whether an answer is right; case, spaces and quotes do not matter."""
        return "".join(sign for sign in answer.lower() if sign.isalnum()) == self.answer


def puzzle_of(seed: bytes, *, hops: int) -> Puzzle:
    """Return the puzzle of a seed, with so many steps after the first word."""
    assert 1 <= hops <= HOPS_MAX, "checked where it is configured"
    draw = _draws(seed)
    picture, word = _picture(draw)
    lines = [f"Step 1: the English word for {picture}."]
    for number in range(2, hops + 2):
        step = _STEPS[next(draw) % len(_STEPS)]
        says, word = step(word, draw)
        lines.append(f"Step {number}: {says}.")
    lines.append("The answer is what the last step leaves, in small letters without spaces.")
    return Puzzle(text="\n".join(lines), answer=word)


def _draws(seed: bytes) -> Iterator[int]:
    """Yield numbers that follow from the seed and look like chance."""
    block = 0
    while True:
        yield from blake2b(seed + block.to_bytes(4, "big")).digest()
        block += 1


def _picture(draw: Iterator[int]) -> tuple[str, str]:
    return _PICTURES[next(draw) % len(_PICTURES)]


def _append(word: str, draw: Iterator[int]) -> tuple[str, str]:
    picture, more = _picture(draw)
    return f"put the word for {picture} behind it", word + more


def _prepend(word: str, draw: Iterator[int]) -> tuple[str, str]:
    picture, more = _picture(draw)
    return f"put the word for {picture}, backwards, before it", more[::-1] + word


def _cut(word: str, draw: Iterator[int]) -> tuple[str, str]:
    picture, more = _picture(draw)
    letter = more[next(draw) % len(more)]
    kept = word.replace(letter, "")
    place = more.index(letter) + 1
    says = f"take away every letter that is letter {place} of the word for {picture}"
    # An empty word would leave nothing to go on from.
    return (says, kept) if kept else (f"{says}, then write the word for {picture}", more)


def _reverse(word: str, draw: Iterator[int]) -> tuple[str, str]:
    picture, more = _picture(draw)
    says = f"read it backwards and put the first letter of the word for {picture} behind it"
    return says, word[::-1] + more[0]


def _rotate(word: str, draw: Iterator[int]) -> tuple[str, str]:
    picture, more = _picture(draw)
    count = len(more) % len(word)
    says = f"move as many of its first letters to its end as the word for {picture} has letters"
    return f"{says}, one at a time", word[count:] + word[:count]


def _swap(word: str, draw: Iterator[int]) -> tuple[str, str]:
    picture, more = _picture(draw)
    says = f"replace its last letter by the word for {picture} without its first letter"
    return says, word[:-1] + more[1:]


_STEPS: tuple[Callable[[str, Iterator[int]], tuple[str, str]], ...] = (
    _append,
    _prepend,
    _cut,
    _reverse,
    _rotate,
    _swap,
)
