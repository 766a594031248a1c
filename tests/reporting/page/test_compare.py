from fl_dp.reporting.page.compare import differing, groups_of
from fl_dp.reporting.page.figures.side_by_side import band
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page

from .conftest import Make
from .reading import Page


def test_runs_that_differ_in_their_seed_alone_are_one_group(make: Make) -> None:
    folders = [
        make(f"{epsilon}-{seed}", settings={"epsilon": epsilon, "seed": seed, "out": f"/x/{epsilon}/{seed}"})
        for epsilon in (1.0, 8.0)
        for seed in (0, 1, 2)
    ]
    runs = [read_run(folder) for folder in folders]
    groups = groups_of(runs)
    assert [(one.label, one.numbers) for one in groups] == [
        ("epsilon 1.0", (1, 2, 3)),
        ("epsilon 8.0", (4, 5, 6)),
    ]
    assert differing(runs) == ("epsilon",)


def test_a_band_is_least_median_and_largest_of_those_that_got_there(make: Make) -> None:
    gains = {"a": (0.1, 3), "b": (0.2, 3), "c": (0.6, 2)}
    runs = [
        read_run(make(name, gain=gain, rounds=rounds, settings={"rounds": 3, "seed": ord(name)}))
        for name, (gain, rounds) in gains.items()
    ]
    (group,) = groups_of(runs)
    found = band(group, lambda one: dict(one.metrics)["accuracy"])
    assert found[0] == (1, 0.1, 0.2, 0.6)
    assert found[2][0] == 3
    assert found[2][1:] == (0.1 * 3, (0.1 * 3 + 0.2 * 3) / 2, 0.2 * 3)


def test_with_and_without_privacy_side_by_side(make: Make) -> None:
    folders = [make("on"), make("off", private=False), make("also-off", private=False, settings={"seed": 9})]
    page = Page(render_page(folders))
    assert "3 runs, 2 kinds of runs once seeds are set aside. NOT PRIVATE: run 2, run 3." in page.text
    assert "publishes the unprotected ones" in page.text
    assert "their epsilons add up" in page.text
    assert page.text.count("For one record at one client: epsilon 0.76") == 1
    assert page.open == []
    private = Page(render_page([folders[0], make("on2", settings={"epsilon": 8.0})]))
    assert "NOT PRIVATE" not in private.text
