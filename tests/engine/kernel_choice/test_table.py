"""The chosen kernels as text: one line a parameter, columns that line up."""

from fl_dp.engine.kernel_choice.table import KernelRow, kernel_table

TABLE = """\
parameter  layout    T   p    d  norm          kernel               decided     ms  next best    ms  KiB kept
a.weight   conv    196  16   64  instantiated  instantiate-patches  measured  4.10  ghost      3.00       4.0
b.weight   outer     1  32  512  ghost         ghost                formula      -  -             -       2.1
b.bias     dense     1  32    1  instantiated  instantiate          fixed        -  -             -       0.1
c.weight   conv      4   8   36  ghost         ghost-matmul         measured  0.50  -             -       1.0"""  # noqa: E501


def test_a_table_as_it_is_printed():
    measured = {"ghost": 0.003, "instantiate-patches": 0.0041, "instantiate-grouped": 0.009}
    rows = [
        KernelRow("a.weight", "conv", 196, 16, 64, "instantiate-patches", "measured", measured, 4096),
        KernelRow("b.weight", "outer", 1, 32, 512, "ghost", "formula", None, 2176),
        KernelRow("b.bias", "dense", 1, 32, 1, "instantiate", "fixed", None, 128),
        KernelRow("c.weight", "conv", 4, 8, 36, "ghost-matmul", "measured", {"ghost-matmul": 0.0005}, 1024),
    ]
    assert kernel_table(rows) == TABLE


def test_no_rows_are_a_line_of_titles():
    assert kernel_table([]) == (
        "parameter  layout  T  p  d  norm  kernel  decided  ms  next best  ms  KiB kept"
    )
