"""A site that registers with a budget of 99,999 and 2,000,000 spent steps, and never trains: what it changes.

|                                            | before               | now                           |
|--------------------------------------------|----------------------|-------------------------------|
| epsilon of each later line, and its budget | inf of 99999         | as without it                 |
| summary.json, trackers, bars, the page     | null, "sets no limit" | as without it                |
| its own row                                | inf                  | 0 in this run, inf as claimed |
"""

import io
import json

import pytest
from federation.server.short_run import left, serve
from rich.console import Console

from fl_dp.federation.server.registration import REVOKED
from fl_dp.records import Entry
from fl_dp.reporting.budget_table import print_budgets
from fl_dp.reporting.console import RoundLines
from fl_dp.reporting.page import render
from fl_dp.reporting.page.read import read_run
from fl_dp.reporting.run_files import Run, read_round
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.reporting.tracking import numbers_of
from fl_dp.verify.check import Evidence, Outcome, checked

LIES = {
    "gross": {"epsilon": 99999.0, "spent": (Entry(0.1, 0.5, 2_000_000),)},
    # noise that is not the run's: a client keeps to its own, so it is never asked
    "mild": {
        "epsilon": 10.0,
        "spent": (Entry(0.1, 1.0, 300),),
        "delta": 0.05,
        "arithmetic": "steady-rows",
    },
}
FATES = ("stays", "leaves", "is revoked")


def run(fakes, folder, lie=None, fate="stays"):
    """Two honest sites and perhaps the liar; the folder that the run leaves."""
    nodes = {1: fakes.Client("north", spent=(Entry(0.1, 2.0, 7),)), 2: fakes.Client("south")}
    if lie:
        nodes[3] = fakes.Client("liar", **LIES[lie])

    class Grid(fakes.Grid):
        sites = {"north", "south", "liar"} if fate == "is revoked" else None

        def push_messages(self, messages):
            messages = list(messages)
            if fate != "stays" and any(one.metadata.group_id == "2" for one in messages):
                self.nodes.pop(3, None)
                self.sites = {"north", "south"} if fate == "is revoked" else None
            return super().push_messages(messages)

    serve(folder, Grid(nodes), **{"rounds": 3, "clients": 3, "min-clients": 2, "fit-clients": 2})
    return RunFolder(folder / "out")


def heads(folder):
    """All that is said of the federation, wherever it is said."""
    lines, summary = left(folder.path.parent)
    console = RoundLines()
    told = []
    for line in lines:
        report = read_round(json.dumps({**line, "seconds": 1.0}), "line")
        # who trained and who was left out is the round's, and the liar was left out of it
        said = console.of(report, 3).partition("trained")[0].split()
        told.append((line["epsilon"], line["delta"], line["federation"], said))
        told.append({name: value for name, value in numbers_of(report).items() if name.startswith("privacy")})
    told.append([summary[key] for key in ("epsilon", "delta", "federation", "planned_epsilon")])
    with pytest.MonkeyPatch.context() as without:
        without.setattr(render, "_figures", lambda run: [])
        page = render.render_page(folder)
    told.append(page.partition('<p class="headline">')[2].partition("</p>")[0])
    for first, next_one in (("guarantee", "what"), ("assumed", "approval"), ("more", "results")):
        told.append(page.partition(f'<h2 id="{first}">')[2].partition(f'<h2 id="{next_one}">')[0])
    return [*told, [one.epsilon for one in read_run(folder).together]]


@pytest.mark.parametrize("fate", FATES)
@pytest.mark.parametrize("lie", LIES)
def test_a_liar_that_never_trains_changes_its_own_row_alone(fakes, tmp_path, lie, fate):
    honest, folder = run(fakes, tmp_path / "honest"), run(fakes, tmp_path / "lied to", lie, fate)
    assert heads(folder) == heads(honest)
    (_, without), (_, summary) = left(tmp_path / "honest"), left(tmp_path / "lied to")
    row = summary["clients"].pop("liar")
    assert summary["clients"] == without["clients"]
    assert (row["rounds"], row["this_run"]["charges"], row["this_run"]["epsilon"]) == (0, [], 0.0)
    assert row["budget"] == LIES[lie]["epsilon"]
    assert row["epsilon"] == row["this_run"]["claimed_epsilon"]
    assert row["epsilon"] is None if lie == "gross" else 5 < row["epsilon"] < 10
    assert (row["reason"] == REVOKED) is (fate == "is revoked")
    assert row["status"] == "idle"
    assert row["reason"]
    differing = [
        one for check in checked(Evidence(folder)) for one in check.findings if one.outcome is Outcome.DIFFERS
    ]
    assert differing == []


def test_what_an_honest_site_had_spent_stands_in_its_row_and_not_in_the_headline(fakes, tmp_path):
    folder = run(fakes, tmp_path)
    summary = json.loads(folder.summary.read_text())
    north, south = summary["clients"]["north"], summary["clients"]["south"]
    assert summary["epsilon"] == north["this_run"]["epsilon"] == south["epsilon"] < north["epsilon"]
    assert "this_run" not in south
    file = io.StringIO()
    print_budgets(Run(folder).summary(), Console(file=file, width=80))
    assert file.getvalue().splitlines()[1].split()[:5] == ["client", "this", "run", "claimed", "total"]
