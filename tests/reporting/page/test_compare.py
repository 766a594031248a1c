from typing import Any

from fl_dp.reporting.page.compare import differences, differing, groups_of
from fl_dp.reporting.page.figures import side_by_side
from fl_dp.reporting.page.figures.canvas import drawing
from fl_dp.reporting.page.figures.side_by_side import band
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.page.render import render_page

from .conftest import Make, change_summary, statement
from .reading import Page
from .runs import launched, opened, served, signed


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
    alike = [read_run(make(name, settings={"seed": ord(name)})) for name in ("x", "y")]
    assert [one.label for one in groups_of(alike)] == ["x and 1 more: the same except for seeds"]


def test_runs_that_differ_in_anything_but_seeds_are_kinds_of_their_own(make: Make) -> None:
    """Though their settings are alike: by how they were launched, ledgers, masks, and data as signed."""
    said = [statement(["north", "south"])]
    others = {
        "plain": make("plain", settings={"seed": 1}),
        "seed": make("seed", settings={"seed": 2}),
        "simulated": launched(make("simulated"), "ray"),
        "by others, or not known": served(make("served")),
        "one-run ledgers": make("own", signed=[statement(["north", "south"], one_run_ledger=True)]),
        "masked sums": opened(make("masked"), masked=True),
        "sums in the clear": opened(make("clear"), masked=False),
        "signed: digits": make("signed", signed=[signed(one) for one in said]),
        "NOT PRIVATE": make("off", private=False),
    }
    first, *rest = groups_of([read_run(folder) for folder in others.values()])
    assert first.numbers == (1, 2)
    assert len(rest) == len(others) - 2
    for name, folder in [*others.items()][2:]:
        _, other = groups_of([read_run(others["plain"]), read_run(folder)])
        assert name in other.label
        assert name in Page(render_page([others["plain"], folder])).text
    row = "one machine lasting ledgers no sums signed: digits north, south, by keys of this launch alone"
    assert f"run 1 signed {row}" in Page(render_page([others["signed: digits"], others["plain"]])).text


def test_every_metric_has_a_column_and_what_all_cost_together_stands_below(make: Make) -> None:
    folders = [
        make(name, metrics={"f1": 0.5, named: 0.25}) for name, named in (("a", "auroc"), ("b", "f1[2]"))
    ]
    page = Page(render_page(folders, "all of them: 3.14")).text
    assert "rounds f1 auroc loss time" in page
    assert "3 0.5000 0.2500 " in page
    assert "all of them: 3.14 Each epsilon is that of its own run" in page


def test_a_copy_of_a_run_is_no_second_seed(make: Make) -> None:
    runs = [make(f"{name}/x", settings={"seed": seed}) for name, seed in (("c", 0), ("d", 7), ("e", 0))]
    page = Page(render_page(runs)).text
    assert "The same files twice: run 3 is a copy of run 1." in page
    assert "run 3 x a copy of run 1 0" in page
    (group,) = groups_of([read_run(run) for run in runs])
    assert group.numbers == (1, 2)


def test_how_many_clients_there_were_is_said_once(make: Make) -> None:
    counts = [dict.fromkeys(("clients", "min-clients", "fit-clients"), clients) for clients in (2, 4)]
    runs = [read_run(make(str(number), settings=one)) for number, one in enumerate(counts)]
    assert [one.what for one in groups_of(runs)] == ["clients 2", "clients 4"]
    assert [row for row in differences(runs).rows if "clients" in row[0]] == [
        ("clients, min-clients, fit-clients", "2", "4")
    ]


def test_no_point_is_on_the_frame_and_one_whose_sums_were_seen_is_hollow(make: Make, monkeypatch) -> None:
    axes: list[Any] = []
    monkeypatch.setattr(side_by_side, "framed", lambda one, *rest: (axes.append(one), rest)[1])
    runs = [
        make("plain"),
        make("off", private=False, gain=0.2),
        opened(make("clear", settings={"epsilon": 8.0}, gain=0.15), masked=False),
        launched(opened(make("played", settings={"epsilon": 9.0}), masked=True), "ray"),
        opened(make("masked", settings={"epsilon": 2.0}), masked=True),
    ]
    with drawing():
        *_, (_, _, text) = side_by_side.compared(groups_of([read_run(run) for run in runs]))
    last = axes[-1]
    for ticks, limits in ((last.get_xticks(), last.get_xlim()), (last.get_yticks(), last.get_ylim())):
        assert (ticks[0], ticks[-1]) == limits
    points = {line.get_label().split(":")[0]: line for line in last.lines}
    for line in points.values():
        if line.get_label().startswith("off"):
            continue
        (x,), (y,) = line.get_data()
        assert x < 0.97 * last.get_xlim()[1]
        assert last.get_ylim()[0] < y < last.get_ylim()[1]
    hollow = {name for name, line in points.items() if line.get_markerfacecolor() == "none"}
    assert hollow == {"clear", "played"}
    assert "against them only the larger epsilon holds: clear: 7.00; played: 7.00." in text


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
    found = band(group, lambda one: one.metrics["accuracy"])
    assert found[0] == (1, 0.1, 0.2, 0.6)
    assert found[2][0] == 3
    assert found[2][1:] == (0.1 * 3, (0.1 * 3 + 0.2 * 3) / 2, 0.2 * 3)


def test_with_and_without_privacy_side_by_side(make: Make) -> None:
    folders = [make("on"), make("off", private=False), make("also-off", private=False, settings={"seed": 9})]
    page = Page(render_page(folders))
    assert "3 runs, 2 kinds of runs apart from seeds. NOT PRIVATE: run 2, run 3." in page.text
    assert "publishes the unprotected ones" in page.text
    assert "their epsilons add up" in page.text
    assert page.text.count("For one record at one client: epsilon 0.76") == 1
    assert page.open == []
    private = Page(render_page([folders[0], make("on2", settings={"epsilon": 8.0})]))
    assert "NOT PRIVATE" not in private.text
