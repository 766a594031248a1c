from fl_dp.reporting.page.compare import differing, groups_of
from fl_dp.reporting.page.figures.side_by_side import band
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page

from .conftest import Make, change_summary
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
        ("1.0-0 and 2 more: epsilon 1.0", (1, 2, 3)),
        ("8.0-0 and 2 more: epsilon 8.0", (4, 5, 6)),
    ]
    assert differing(runs) == ("epsilon",)


def test_labels_name_folders_and_the_settings_that_tell_most_runs_apart(make: Make) -> None:
    """The first settings that differ are of the data, and alike in runs 1 and 4."""
    settings = [
        {"data-name": name, "partition": cut, "model": model, "epsilon": epsilon, "learning-rate": rate}
        for name, cut, model, epsilon, rate in (
            ("a", "iid", "linear", 1.0, 0.5), ("b", "shards", "mlp", 2.0, 0.5), ("b", "iid", "mlp", 3.0, 0.5),
            ("a", "iid", "linear", 8.0, 2.0),
        )
    ]  # fmt: skip
    runs = [read_run(make(f"{name}/run", settings=one)) for name, one in zip("efgh", settings, strict=True)]
    first, *_, fourth = groups_of(runs)
    assert first.label.startswith("run (run 1): epsilon 1.0, ")
    assert fourth.label.startswith("run (run 4): epsilon 8.0, ")
    alike = [read_run(make(name, settings={"epsilon": 3.0})) for name in ("x", "y")]
    assert [one.label for one in groups_of(alike)] == ["x and 1 more: alike but for seeds"]


def test_both_epsilons_of_a_secure_run_are_in_its_row(make: Make) -> None:
    shared = [{"sample_rate": 0.1, "noise_multiplier": 1.5, "steps": 9, "shares": 3}]
    secure = change_summary(make("secure"), lambda said: said["clients"]["north"].update(charges=shared))
    change_summary(secure, lambda said: said["federation"].update(epsilon_alone=8.16))
    folders = [secure, make("plain"), make("off", private=False)]
    page = Page(render_page(folders))
    assert "epsilon if the assumption behind secure sums fails delta" in page.text
    for row in ("0.76 8.16 1e-05", "0.76 0.76 1e-05", "NOT PRIVATE NOT PRIVATE none"):
        assert row in page.text
    assert "if the assumption behind secure sums fails delta" not in Page(render_page(folders[1:])).text


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
