from pathlib import Path

import pytest

from fl_dp.data.tokens import absolute_tokenizer, encoder_of
from fl_dp.errors import DataError

TEXTS = ["The cat, the Cat!", "a b", ""]


@pytest.fixture
def word_level(tmp_path: Path) -> Path:
    """A tokenizer.json of five words, with tokens of its own at the ends, cut at 2 by its own file."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {"[PAD]": 7, "[CLS]": 1, "the": 2, "cat": 3, "[UNK]": 4, "a": 5}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A", special_tokens=[("[CLS]", 1)])
    tokenizer.enable_truncation(2)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_words_are_hashed_into_a_public_number_of_tokens() -> None:
    encoder = encoder_of("words:4096")
    first, second, empty = encoder.rows(TEXTS, 6).tolist()
    assert first[0] == first[3]  # the, The
    assert first[1] == first[4]
    assert first[:6].count(0) == 0
    assert len({first[0], first[1], first[2], first[5]}) == 4  # the, cat, comma, mark
    assert second[2:] == [0] * 4
    assert empty == [0] * 6
    assert all(1 <= token < 3 for row in encoder_of("words:3").rows(TEXTS[:1], 6).tolist() for token in row)
    assert encoder.rows(["the"], 1).tolist() == [[2506]]  # for ever: another would be another model


def test_a_tokenizer_from_a_local_file(word_level: Path) -> None:
    encoder = encoder_of(str(word_level))
    assert (encoder.size, encoder.padding) == (8, 7)
    assert encoder.rows(["the cat a a", "a"], 4).tolist() == [[1, 2, 3, 5], [1, 5, 7, 7]]
    tokens, ends = encoder.running("the cat a")
    assert (tokens.tolist(), ends.tolist()) == ([2, 3, 5], [3, 7, 9])


def test_ends_of_tokens_lead_back_to_the_text() -> None:
    text = "One, zw\xf6lf."
    for name in ("bytes", "words:99"):
        encoder = encoder_of(name)
        tokens, ends = encoder.running(text)
        assert len(tokens) == len(ends)
        assert ends[-1] == len(text.encode() if encoder.counts_bytes else text)
    assert encoder_of("words:99").running(text)[1].tolist() == [3, 4, 10, 11]


@pytest.mark.parametrize("content", ["", "{}", '{"model": 3}', "\x00"])
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(DataError, match=r"t\.json: not a readable tokenizer\.json"):
        encoder_of(str(tmp_path / "t.json"))


def test_texts_of_many_lengths_need_a_padding_token(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models

    Tokenizer(models.WordLevel({"a": 0, "b": 1}, unk_token="a")).save(str(tmp_path / "t.json"))
    encoder = encoder_of(str(tmp_path / "t.json"))
    assert encoder.running("b")[0].tolist() == [1]
    with pytest.raises(DataError, match="no padding token"):
        encoder.rows(["b"], 2)


def test_only_files_become_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_tokenizer("bytes") == "bytes"
    assert absolute_tokenizer("words:9") == "words:9"
    assert absolute_tokenizer("t.json") == str(tmp_path / "t.json")


@pytest.mark.parametrize(
    "name", ["words:", "words:x", "words:-3", "words:1000000000000", f"words:{'9' * 5000}", "words:1"]
)
def test_a_vocabulary_that_no_model_has_is_refused(name: str) -> None:
    with pytest.raises(DataError, match="expected words:N, N from 2 to 1048576"):
        encoder_of(name)
