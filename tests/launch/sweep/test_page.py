from fl_dp.launch.sweep.page import write_page
from fl_dp.launch.sweep.plan import SweepFolder
from fl_dp.reporting.page import write


def test_a_page_that_cannot_be_drawn_ends_no_sweep(tmp_path, monkeypatch):
    folder = SweepFolder(tmp_path)
    assert "holds no run" in write_page([folder.run("a")], folder)

    def broken(*_: object) -> None:
        raise ZeroDivisionError("a fault of ours")

    monkeypatch.setattr(write, "drawn_by", broken)
    assert write_page([], folder) == "no report.html: it could not be drawn (ZeroDivisionError)."
