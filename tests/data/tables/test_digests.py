import numpy as np

from fl_dp.data.tables.encode import for_testing, record_digests


def cells(*texts: str) -> np.ndarray:
    return np.array(texts, dtype=object)


def test_the_order_of_columns_does_not_count_their_names_do() -> None:
    one = record_digests({"a": cells("1", "2"), "b": cells("3", "4")})
    assert record_digests({"b": cells("3", "4"), "a": cells("1", "2")}) == one
    assert not set(record_digests({"a": cells("3", "4"), "b": cells("1", "2")})) & set(one)
    assert record_digests({"a": cells("1.0", "2"), "b": cells("3", "4.00")}) == one


def test_digests_and_split_are_those_of_earlier_versions() -> None:
    """What records have spent hangs on the first, which ones are tested on the second."""
    digests = record_digests({"a": cells("1", "x"), "b": cells("", "ü")})
    assert [one.hex()[:16] for one in digests] == ["8d792d649dace668", "a0eb193f001693d3"]
    chosen = for_testing(tuple(bytes([i]) for i in range(40)))
    assert np.flatnonzero(chosen).tolist() == [1, 4, 6, 19, 22, 23, 27, 28, 36, 38]
