from made_up_runs import outcome, seen

from benchmarks.simulation.contenders import Load
from benchmarks.simulation.tables import reasons, table_of_growth, table_of_training, table_without_training
from benchmarks.simulation.watch import NotMeasured


def cells(table, row=0):
    return [cell.strip() for cell in table.splitlines()[2 + row].strip("|").split("|")]


def test_a_load_and_a_federation_each_have_their_table():
    both = [outcome("A", Load(10, 100_000), seen(0.5)), outcome("A", "digits", seen(0.5, 1.5))]
    assert cells(table_without_training(both))[:5] == ["10", "0.1", "A", "50", "1"]
    assert cells(table_of_training(both))[:7] == ["digits", "A", "60", "1.00", "0.50", "1.50", "50"]


def test_growth_is_linear_where_neither_time_nor_memory_outgrows_the_clients():
    def verdict(seconds, peak):
        few = outcome("A", Load(100, 100_000), seen(1.0))
        many = outcome("A", Load(1000, 100_000), seen(seconds, peak=peak))
        return cells(table_of_growth([few, many]))[-1]

    assert verdict(10.0, 2**31) == "linear or better"
    assert verdict(10.1, 2**31) == "worse than linear"
    assert verdict(1.0, 11 * 2**30) == "worse than linear"


def test_who_has_no_figures_has_a_word_in_the_table_and_a_reason_below():
    ended = outcome("A", "digits")
    ended.ended = NotMeasured("not installed", "name a Python")
    assert cells(table_of_training([ended]))[2] == "not installed"
    assert reasons([ended, outcome("A", "digits", seen(1))]) == "- A, digits: not installed: name a Python"
    assert table_of_growth([outcome("A", Load(100, 1), seen(1.0))]) == ""  # one load alone has none
