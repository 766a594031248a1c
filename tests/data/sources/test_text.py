import gzip
import random
from pathlib import Path

import pytest

from fl_dp.accounting.ledger.overlap import share_many, sketch
from fl_dp.data.source import Reading
from fl_dp.data.sources.text import WINDOW, digest, load_text, passages
from fl_dp.data.tokens import encoder_of
from fl_dp.errors import DataError

BYTES = Reading(tokens=8)


def write(path: Path, text: str, encoding: str = "utf-8") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = text.encode(encoding)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def in_order(data) -> list[tuple[list[int], int]]:
    return list(zip(data.x.tolist(), data.y.tolist(), strict=True))


def test_lines_are_records_and_files_their_labels(tmp_path: Path) -> None:
    write(tmp_path / "train" / "pos.txt", "ab\r\n\n  \nabcdefghijkl")
    write(tmp_path / "train" / "neg.txt.gz", "c")
    write(tmp_path / "test" / "neg.txt", "d\n")
    write(tmp_path / "test" / "odd.txt", "")  # an empty file declares a class
    train, test = load_text(tmp_path, BYTES, "train"), load_text(tmp_path, BYTES, "test")
    assert train.classes == test.classes == ("neg", "odd", "pos")
    assert (train.vocabulary, train.form.input_shape) == (257, (8,))
    assert in_order(train) == [
        ([100, 0, 0, 0, 0, 0, 0, 0], 0),  # byte b is token b + 1, 0 fills up
        ([98, 99, 0, 0, 0, 0, 0, 0], 2),
        ([98, 99, 100, 101, 102, 103, 104, 105], 2),  # cut
    ]
    assert in_order(test) == [([101, 0, 0, 0, 0, 0, 0, 0], 0)]


def test_without_folders_each_line_decides_for_itself(tmp_path: Path) -> None:
    lines = [f"review number {k}" for k in range(300)]
    write(tmp_path / "pos.txt", "\n".join(lines))
    write(tmp_path / "neg.txt", "another")
    reading = Reading(tokens=20)
    train, test = load_text(tmp_path, reading, "train"), load_text(tmp_path, reading, "test")
    assert len(train) + len(test) == 301
    assert 30 <= len(test) <= 90
    write(tmp_path / "pos.txt", "\n".join(["new ones before", *lines, "and after"]))
    assert set(test.raw) <= set(load_text(tmp_path, reading, "test").raw)  # nobody changes sides


def test_an_encoding_is_declared(tmp_path: Path) -> None:
    write(tmp_path / "train" / "pos.txt", "caf\xe9\x85x", "latin-1")  # \x85 ends no line
    with pytest.raises(DataError, match=r'cannot be read as utf-8; try encoding = "latin-1"') as error:
        load_text(tmp_path, BYTES, "train")
    assert "caf" not in str(error.value)
    data = load_text(tmp_path, Reading(tokens=8, encoding="latin-1"), "train")
    assert bytes(token - 1 for token in data.x[0].tolist() if token).decode() == "caf\xe9\x85x"


def test_another_tokenizer_or_length_buys_no_fresh_budget(tmp_path: Path) -> None:
    write(tmp_path / "train" / "pos.txt", "some words\nand others")
    first = load_text(tmp_path, BYTES, "train").fingerprint()
    assert load_text(tmp_path, Reading(tokens=3, tokenizer="words:50"), "train").fingerprint() == first
    write(tmp_path / "train" / "pos.txt", "some words\nand more")
    assert load_text(tmp_path, BYTES, "train").fingerprint() != first


def test_a_running_text_gives_passages_and_what_comes_next(tmp_path: Path) -> None:
    text = "".join(f"This is line {k} of the play. " for k in range(400))
    write(tmp_path / "play.txt.gz", text)
    reading = Reading(tokens=40)
    train, test = (load_text(tmp_path / "play.txt.gz", reading, split) for split in ("train", "test"))
    assert (train.form.targets, train.form.outputs, train.form.input_shape) == ("tokens", 257, (40,))
    assert (train.x[:, 1:] == train.y[:, :-1]).all()
    assert len(train) + len(test) == len(text) // 41  # none in two, none lost but the last
    seen = {bytes(t - 1 for t in row) for row in train.x.tolist()} | {
        bytes(t - 1 for t in row) for row in test.x.tolist()
    }
    assert seen == {text[start : start + 40].encode() for start in range(0, len(text) - 40, 41)}


@pytest.mark.parametrize(
    ("files", "reading", "words"),
    [
        ({}, BYTES, "no train texts; expected one file of lines per class"),
        ({"train/pos.txt": ""}, BYTES, "no train texts"),
        ({"train/pos.txt": "a"}, Reading(), "tokens = 0: expected the length of an example"),
        ({"train/pos.txt": "a"}, Reading(tokens=8, tokenizer="absent.json"), r"absent\.json: no such file"),
    ],
)
def test_what_cannot_be_read_is_refused(
    tmp_path: Path, files: dict[str, str], reading: Reading, words: str
) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)
    with pytest.raises(DataError, match=words):
        load_text(tmp_path, reading, "train")


def test_a_missing_path_a_damaged_file_and_one_too_short_for_a_passage_are_named(tmp_path: Path) -> None:
    write(tmp_path / "play.txt", "to be")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(b"a text" * 50)[:-9])
    for name, words in (
        ("nowhere", "nowhere: no such file or folder"),
        ("cut.txt.gz", r"cut\.txt\.gz: expected a readable text \(EOFError\)"),
        ("play.txt", "too short for one train passage of tokens = 8 and one more"),
    ):
        with pytest.raises(DataError, match=words):
            load_text(tmp_path / name, BYTES, "train")


WORDS = ("love", "death", "crown", "night", "sword", "the", "and", "of", "king", "my", "lord", "speak")


def running_text(seed: int, words: int = 20_000) -> str:
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
    found = sketch_of(before + running_text(seed), tokenizer, length)
    assert share_many(sketch_of(running_text(0), "bytes", 64), found) == known


def test_a_digest_is_of_a_part_that_a_longer_passage_has_too() -> None:
    passage = running_text(3, 60).encode()
    short = {digest(passage[start : start + 60]) for start in range(0, len(passage) - 60, 5)}
    assert digest(passage[: 5 * (len(passage) // 5)]) in short
    assert digest(b"a" * WINDOW) == digest(b"a" * (WINDOW + 9))  # all windows alike
    assert digest(b"short") != digest(b"shorn")
