"""Pieces of a text do not depend on how it is cut."""

import numpy as np
import pytest

import fl_dp.data.traces.texts as texts
from fl_dp.data.traces.texts import WINDOW, of_texts

TEXT = np.random.default_rng(0).integers(97, 123, 4000, dtype=np.uint8).tobytes()


def cut(length: int) -> list[bytes]:
    return [TEXT[start : start + length] for start in range(0, len(TEXT), length)]


@pytest.mark.parametrize("length", [7, 64, 4000])
def test_a_running_text_has_the_same_pieces_however_it_is_cut(length: int) -> None:
    found = of_texts(cut(length), running=True)
    assert set(found.digests()) == set(of_texts([TEXT], running=True).digests())
    assert found.records == len(cut(length))


def test_long_texts_are_read_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = of_texts(cut(50)).digests()
    monkeypatch.setattr(texts, "_CHUNK", 100)
    assert of_texts(cut(50)).digests() == whole


def test_lines_are_pieces_of_their_own_in_any_order() -> None:
    lines = cut(100)
    one, other = of_texts(lines), of_texts(lines[::-1])
    assert set(one.digests()) == set(other.digests())
    assert set(one.owners.tolist()) <= set(range(40))
    assert set(one.at(np.arange(20)).digests()) == set(of_texts(lines[:20]).digests())
    assert len(of_texts(cut(WINDOW - 1)).digests()) == len(cut(WINDOW - 1))  # short ones as they are


def test_blanks_and_capitals_do_not_count() -> None:
    spread = b" \n".join(TEXT[start : start + 5].upper() for start in range(0, len(TEXT), 5))
    assert of_texts([spread]).digests() == of_texts([TEXT]).digests()
