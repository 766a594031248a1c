"""A ledger must know a running text again, however it was cut and encoded."""

import random

import pytest

from fl_dp.accounting.ledger.overlap import share_many, sketch
from fl_dp.data.sources.text import WINDOW, digest, passages
from fl_dp.data.tokens import encoder_of

WORDS = ("love", "death", "crown", "night", "sword", "the", "and", "of", "king", "my", "lord", "speak")


def text(seed: int, words: int = 20_000) -> str:
    drawn = random.Random(seed)
    return " ".join(drawn.choice(WORDS) for _ in range(words))


def sketch_of(text: str, tokenizer: str, length: int) -> str:
    return sketch((one.raw for one in passages(text, encoder_of(tokenizer), length)), b"key")


@pytest.mark.parametrize(
    ("before", "seed", "tokenizer", "length", "known"),
    [
        ("", 0, "bytes", 63, True),
        ("", 0, "bytes", 65, True),
        ("", 0, "bytes", 256, True),
        ("", 0, "words:500", 20, True),
        ("A new line. ", 0, "bytes", 64, True),
        ("", 1, "bytes", 64, False),  # of the same words
    ],
)
def test_the_same_text_cut_or_encoded_otherwise_is_known_again_and_no_other(
    before: str, seed: int, tokenizer: str, length: int, known: bool
) -> None:
    found = sketch_of(before + text(seed), tokenizer, length)
    assert share_many(sketch_of(text(0), "bytes", 64), found) == known


def test_a_digest_is_of_a_part_that_a_longer_passage_has_too() -> None:
    passage = text(3, 60).encode()
    short = {digest(passage[start : start + 60]) for start in range(0, len(passage) - 60, 5)}
    assert digest(passage[: 5 * (len(passage) // 5)]) in short
    assert digest(b"a" * WINDOW) == digest(b"a" * (WINDOW + 9))  # all windows alike
    assert digest(b"short") != digest(b"shorn")
