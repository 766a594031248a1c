"""Texts with an author each, from files of three kinds."""

import json
from pathlib import Path

import pytest

from fl_dp.data.source import Reading
from fl_dp.data.sources.authors import load_authors
from fl_dp.errors import DataError

READING = Reading(tokens=4)
SAID = [("ann", "hello"), ("bob", "a somewhat longer text"), ("ann", "ab"), ("ann", "x")]


def folder(path: Path) -> Path:
    path = path / "said"
    path.mkdir()
    for name, text in SAID[:2]:
        (path / f"{name}.txt").write_text(text)
    return path


def json_lines(path: Path) -> Path:
    lines = [json.dumps({"author": name, "text": text, "year": 7}) for name, text in SAID]
    (path / "said.jsonl").write_text("\n".join(lines) + "\n\n")
    return path / "said.jsonl"


def table(path: Path) -> Path:
    (path / "said.csv").write_text("text,author\n" + "".join(f"{text},{name}\n" for name, text in SAID))
    return path / "said.csv"


def in_order(*splits):
    """Authors, and the bytes that count: of the inputs, and of the last target."""
    found = []
    for data in splits:
        for name, x, y in zip(data.groups, data.x.tolist(), data.y.tolist(), strict=True):
            count = sum(target != -100 for target in y)
            assert y[: count - 1] == x[1:count]
            assert (x[count:], y[count:]) == ([0] * (4 - count), [-100] * (4 - count))
            found.append((name, bytes(token - 1 for token in [*x[:count], y[count - 1]]).decode()))
    return sorted(found)


@pytest.mark.parametrize(("made", "texts"), [(folder, SAID[:2]), (json_lines, SAID), (table, SAID)])
def test_each_text_is_cut_by_itself_and_what_fills_up_does_not_count(tmp_path, made, texts):
    path = made(tmp_path)
    train, test = (load_authors(path, READING, split) for split in ("train", "test"))
    passages = [(name, text[i : i + 5]) for name, text in texts for i in range(0, len(text), 5)]
    assert in_order(train, test) == sorted(one for one in passages if len(one[1]) > 1)
    assert (train.grouped_by, train.vocabulary, train.form.targets) == ("author", 257, "tokens")


def test_a_record_is_known_by_its_own_text_alone(tmp_path):
    path = json_lines(tmp_path)
    first = load_authors(path, READING, "train")
    before = dict(zip(first.raw, first.groups, strict=True))
    path.write_text(json.dumps({"author": "eve", "text": "something new"}) + "\n" + path.read_text())
    after = load_authors(path, READING, "train")
    assert before.items() <= dict(zip(after.raw, after.groups, strict=True)).items()


@pytest.mark.parametrize(
    ("name", "content", "columns", "words"),
    [
        ("a.jsonl", '{"author": "x"}', "", r"line 1 .*an object with a text 'text'"),
        ("a.jsonl", '{"author": " ", "text": "secret"}', "", "an object with a text 'author'"),
        ("a.jsonl", "[1]", "", "line 1"),
        ("a.jsonl", "", "", "no train passages"),
        ("a.csv", "who,text\na,bcd\n", "", "does not name the column 'author'; see columns"),
        ("a.csv", "author,text\n,secret\n", "", "row 1 has no author"),
        ("a.csv", "author,text\na,b\n", "author", "columns = 'author': expected AUTHOR,TEXT"),
    ],
)
def test_what_is_no_such_file_is_refused_without_quoting_it(tmp_path, name, content, columns, words):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=words) as refused:
        load_authors(tmp_path / name, Reading(tokens=4, columns=columns), "train")
    assert "secret" not in str(refused.value)
