"""An operator who has spent a budget offers the same data once more, so that they begin anew.

Somebody means well and has a new export of the file, or wants another model, another unit, a fresh budget.
The ledger's account is all that stands between the records and a second epsilon. docs/ledger.md lists these
ways: those that the ledger knows, and those that it takes for new data. Each is run here.
"""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from attacks.entered import (
    COLUMNS,
    IGNORED,
    NUMBER,
    Site,
    answers,
    kind_of,
    many_columns,
    many_without_ids,
    patients,
    yes_or_no,
)
from PIL import Image

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.run import RunConfig
from fl_dp.errors import LedgerError
from fl_dp.federation.client.registration import numbered, registration_of
from fl_dp.launch.clients import client_config
from fl_dp.reporting.ledger_report import account_reports
from fl_dp.simulation.actor.shared_data import SharedData, SharedParts
from fl_dp.tasks.records import files_read, load_parts


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def _copy(site: Site, frame: pd.DataFrame) -> dict[str, Any]:
    for ending in (".csv", ".schema.toml"):
        shutil.copy(site.folder / f"first{ending}", site.folder / f"copy{ending}")
    return {"data": f"csv:{site.folder / 'copy.csv'}"}


def _link(site: Site, frame: pd.DataFrame) -> dict[str, Any]:
    os.symlink(site.folder / "first.csv", site.folder / "link.csv")
    shutil.copy(site.folder / "first.schema.toml", site.folder / "link.schema.toml")
    return {"data": f"csv:{site.folder / 'link.csv'}", "data_name": "other"}


def _by_person(site: Site, frame: pd.DataFrame) -> dict[str, Any]:
    settings = site.table(frame, patient='kind = "group"')
    return {**settings, "unit": "person:patient", "records_per_person": 2}


def _parquet(site: Site, frame: pd.DataFrame) -> dict[str, Any]:
    site.table(frame, "other")
    path = site.folder / "other.parquet"
    frame.to_parquet(path)
    return {"data": f"parquet:{path}", "data_name": "other"}


def _encoded(site: Site, frame: pd.DataFrame) -> dict[str, Any]:
    named = frame.assign(ward=frame["ward"].replace("c", "ü"))
    wards = 'kind = "category"\ncategories = ["a", "b", "ü"]'
    return site.table(named, more='encoding = "cp1252"', csv={"encoding": "cp1252"}, ward=wards)


def _arrays(site: Site, frame: pd.DataFrame) -> dict[str, Any]:
    path = site.folder / "arrays.npz"
    x = frame[["age", "pressure", "cholesterol", "weight"]].to_numpy(np.float32)
    y = (frame["ill"] == "yes").to_numpy(np.int64)
    np.savez(path, x_train=x, y_train=y, x_test=x[:1], y_test=y[:1], classes=np.array(["no", "yes"]))
    return {"data": f"npz:{path}"}


def _new(count: int, rows: int = 600) -> dict[str, Any]:
    draw = np.random.default_rng(5)
    return {f"new{number}": draw.normal(size=rows).round(6) for number in range(count)}


def _other_label(site: Site, frame: pd.DataFrame) -> dict[str, Any]:
    wards = 'kind = "label"\nclasses = ["a", "b", "c"]'
    return site.table(frame, ill=IGNORED, ward=wards)


Way = Callable[[Site, pd.DataFrame], dict[str, Any]]
KNOWN: dict[str, Way] = {
    "a copy of the file": _copy,
    "a symbolic link, another data-name": _link,
    "rows in another order": lambda site, frame: site.table(frame.sample(frac=1, random_state=1)),
    "columns in another order": lambda site, frame: site.table(frame[sorted(frame)]),
    "columns renamed": lambda site, frame: site.table(
        frame.rename(columns=str.upper), **{name.upper(): kind for name, kind in COLUMNS.items()}
    ),
    "another unit, the ids now a group": _by_person,
    "columns ignored": lambda site, frame: site.table(frame, ward=IGNORED, sex=IGNORED, weight=IGNORED),
    "another label": _other_label,
    "one row more": lambda site, frame: site.table(pd.concat([frame, patients(1, 1)])),
    "a third of the rows": lambda site, frame: site.table(frame.iloc[::3], patient='kind = "group"'),
    "numbers rounded to three digits": lambda site, frame: site.table(
        frame.assign(cholesterol=frame["cholesterol"].round(2))
    ),
    "another encoding": _encoded,
    "as Parquet": _parquet,
}
NEW: dict[str, Way] = {
    "a column left out": lambda site, frame: site.table(frame.drop(columns="pressure")),
    "a new column, different in each row": lambda site, frame: site.table(
        frame.assign(**_new(1)), new0=NUMBER
    ),
    "rows numbered, the export's date": lambda site, frame: site.table(
        frame.assign(row=range(600), exported="2026-11-24"), row=IGNORED, exported=IGNORED
    ),
    "ids replaced by others": lambda site, frame: site.table(
        frame.assign(patient=patients(9)["patient"]), patient=IGNORED
    ),
    "each row twice": lambda site, frame: site.table(pd.concat([frame, frame]), patient='kind = "group"'),
    "decimal commas and semicolons": lambda site, frame: site.table(
        frame, more='separator = ";"\ndecimal = ","', csv={"sep": ";", "decimal": ","}
    ),
    "as arrays": _arrays,
    "every number in other units": lambda site, frame: site.table(
        frame.assign(
            age=frame["age"] * 12,
            pressure=frame["pressure"] * 0.133322,
            weight=frame["weight"] * 2.20462,
            cholesterol=frame["cholesterol"] * 38.67,
        ),
        patient=IGNORED,
        **dict.fromkeys(("age", "pressure", "weight", "cholesterol"), NUMBER),
    ),
    "noise on every number": lambda site, frame: site.table(
        frame.assign(
            **{
                name: frame[name] + np.random.default_rng(3).normal(size=600) * frame[name].std() / 10
                for name in ("age", "pressure", "weight", "cholesterol")
            }
        ),
        **dict.fromkeys(("age", "pressure", "weight", "cholesterol"), NUMBER),
    ),
    "one row in fifty, among others": lambda site, frame: site.table(
        pd.concat([frame.iloc[::50], patients(2, 588)])
    ),
}


@pytest.mark.parametrize("way", [*KNOWN, *NEW])
def test_a_table(site: Site, way: str) -> None:
    frame = patients()
    site.enter(**site.table(frame, "first"))
    settings = {**KNOWN, **NEW}[way](site, frame)
    if way in NEW:
        site.enter(**settings)
        return
    with pytest.raises(LedgerError, match="first") as refused:
        site.enter(**settings)
    assert "fl-dp ledger retire" in str(refused.value) or "use that name" in str(refused.value)


def _three_columns(seed: int) -> pd.DataFrame:
    """Of patients who are numbered, so that columns tell nothing: other tables have the same numbers."""
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "patient": [f"P{number}" for number in range(400)],
            "age": draw.integers(18, 91, 400),
            "ill": draw.choice(["no", "yes"], 400),
        }
    )


FEW: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "byte for byte": lambda frame: frame,
    "in another order": lambda frame: frame.sample(frac=1, random_state=1),
    "with lines appended": lambda frame: pd.concat([frame, _three_columns(1)]),
    "with a few lines changed": lambda frame: frame.assign(age=frame["age"].where(frame.index % 9 > 0, 50)),
    "every other line": lambda frame: frame.iloc[::2],
}


@pytest.mark.parametrize("way", FEW)
def test_a_table_of_few_columns_is_known_by_its_file(site: Site, way: str) -> None:
    """A slip that begins with good intentions: the unit should be the person, so a new schema is written."""
    frame = _three_columns(0)
    site.enter(**site.table(frame, "first"))
    with pytest.raises(LedgerError, match="first"):
        site.enter(**_by_person(site, FEW[way](frame)))


def test_a_short_table_is_known_byte_for_byte(site: Site) -> None:
    frame = _three_columns(0).iloc[:5]
    site.enter(**site.table(frame, "first"))
    with pytest.raises(LedgerError, match="first"):
        site.enter(**_by_person(site, frame))


def test_other_patients_who_are_numbered_alike_are_new(site: Site) -> None:
    for seed in range(3):
        frame = _three_columns(seed)
        frame["ill"] = np.where(np.random.default_rng(seed).random(400) < 0.05, "yes", "no")
        names = {"patient": f"id{seed}", "age": f"score{seed}"}
        kinds = {f"id{seed}": IGNORED, f"score{seed}": NUMBER}
        site.enter(**site.table(frame.rename(columns=names), f"hospital{seed}", **kinds))


TEXT = " ".join(
    f"{word}{number}"
    for word, number in zip(
        np.random.default_rng(0).choice(
            [
                "the patient came with a fever of",
                "was sent home after days",
                "pain in the left knee, grade",
                "no further treatment until week",
                "blood pressure was measured as",
            ],
            800,
        ),
        np.random.default_rng(1).integers(0, 10**6, 800),
        strict=True,
    )
)


def enter_text(site: Site, name: str, text: str, **settings: Any) -> None:
    (site.folder / f"{name}.txt").write_text(text)
    site.enter(data=f"text:{site.folder / name}.txt", data_name=name, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"tokens": 33},
        {"tokens": 40},
        {"tokens": 64},
        {"tokens": 9},
        {"tokens": 32, "tokenizer": "words:500"},
        {"tokens": 12, "tokenizer": "words:64"},
    ],
    ids=str,
)
def test_a_running_text_is_known_by_its_file_whatever_a_record_is(
    site: Site, settings: dict[str, Any]
) -> None:
    enter_text(site, "first", TEXT, tokens=32)
    with pytest.raises(LedgerError, match="first"):
        enter_text(site, "other", TEXT, **settings)


@pytest.mark.parametrize(
    "settings", [{"tokens": 200}, {"tokens": 300}, {"tokens": 60, "tokenizer": "words:500"}], ids=str
)
def test_a_longer_text_is_known_by_its_passages_if_they_are_long(
    site: Site, settings: dict[str, Any]
) -> None:
    enter_text(site, "first", TEXT, tokens=256)
    with pytest.raises(LedgerError, match="first"):
        enter_text(site, "other", f"Then {TEXT} and so on", **settings)


def test_a_text_in_other_letters_is_new(site: Site) -> None:
    enter_text(site, "first", TEXT, tokens=32)
    enter_text(site, "other", TEXT.upper(), tokens=32)


def test_lines_are_known_under_other_labels(site: Site) -> None:
    lines = [f"{line}" for line in TEXT.replace("the ", "\nthe ").splitlines() if line]
    for name, parts in {"first": (lines[::2], lines[1::2]), "other": (lines[:50], lines[50:])}.items():
        for label, part in zip(("calm", "ill"), parts, strict=True):
            (site.folder / name / "train").mkdir(parents=True, exist_ok=True)
            (site.folder / name / "train" / f"{label}.txt").write_text("\n".join(part))
    site.enter(data=f"text:{site.folder / 'first'}", data_name="first", tokens=32)
    with pytest.raises(LedgerError, match="first"):
        site.enter(data=f"text:{site.folder / 'other'}", data_name="other", tokens=20)


@pytest.mark.parametrize("way", ["other labels", "another size", "saved as another file", "compressed anew"])
def test_pictures(site: Site, way: str) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (30, 12, 12), dtype=np.uint8)
    labels = np.arange(30) % (3 if way == "other labels" else 2)
    ending = {"saved as another file": "bmp", "compressed anew": "jpg"}.get(way, "png")
    for name, classes, kind in (("first", np.arange(30) % 2, "png"), ("other", labels, ending)):
        for number, (image, label) in enumerate(zip(pixels, classes, strict=True)):
            folder = site.folder / name / "train" / f"class{label}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(folder / f"{number}.{kind}")
    site.enter(data=f"folder:{site.folder / 'first'}", data_name="first")
    settings = {"image_size": 8} if way == "another size" else {}
    again = {"data": f"folder:{site.folder / 'other'}", "data_name": "other", **settings}
    if way in ("saved as another file", "compressed anew"):  # other bytes: new data
        site.enter(**again)
        return
    with pytest.raises(LedgerError, match="first"):
        site.enter(**again)


@pytest.mark.parametrize("shape", [answers, yes_or_no, many_without_ids, many_columns])
def test_tables_of_other_shapes(site: Site, shape: Callable[[int], pd.DataFrame]) -> None:
    """Renamed they are known by their lines; with a column more or less they are new."""
    frame = shape(0)
    wards = {"ward": COLUMNS["ward"], "WARD": COLUMNS["ward"]}

    def settings(name: str, table: pd.DataFrame) -> dict[str, Any]:
        return site.table(table, name, **{one: wards.get(one) or kind_of(one, table[one]) for one in table})

    site.enter(**settings("first", frame))
    with pytest.raises(LedgerError, match="first"):
        site.enter(**settings("renamed", frame.rename(columns=str.upper)))
    site.enter(**settings("longer", frame.assign(**_new(1, len(frame)))))
    site.enter(**settings("shorter", frame.drop(columns=frame.columns[2])))


@pytest.mark.parametrize("files", [False, True], ids=["a cut of one file", "a file for each client"])
def test_what_a_simulation_has_trained_on_is_known_to_a_client(site: Site, files: bool) -> None:
    """And the other way round; its clients' parts are views of records in one memory."""
    frame = patients()
    whole = site.table(frame, "first")
    for client in range(3):
        site.table(frame.iloc[client::3], f"part{client}")
    data = f"csv:{site.folder / 'part{client}.csv'}" if files else whole["data"]
    config = RunConfig(clients=3, data=data, data_name="simulated")
    train, rows = load_parts(config)
    parts = SharedParts(SharedData.of(train, rows), files_read(config))
    clients = [numbered(client_config(config, 0, site.folder), part, 3) for part in range(3)]
    with Ledger.open(site.folder / "ledger.sqlite") as ledger:
        ledger.register_all(registration_of(parts[k], client) for k, client in enumerate(clients))
    for again in (frame, frame.iloc[1::3]):
        with pytest.raises(LedgerError, match="simulated, "):
            site.enter(**_by_person(site, again))


@pytest.mark.parametrize("retired", [False, True])
def test_a_part_is_known_by_the_files_of_its_whole_which_the_first_part_has(
    site: Site, retired: bool
) -> None:
    frame = patients()
    first = site.table(frame, "first")
    for part in (0, 1):
        site.enter(**first, num_partitions=3, partition_id=part)
    with Ledger.open(site.folder / "ledger.sqlite") as ledger:
        rows = [json.loads(row.content) for row in ledger.rows()]
        if retired:
            ledger.retire(ledger.accounts()[0].dataset)
    assert ["files" in row for row in rows] == [True, False]
    site.enter(**first, num_partitions=3, partition_id=2)  # parts of one cut stand beside each other
    with pytest.raises(LedgerError, match=r"part [01]/3"):
        site.enter(**_by_person(site, frame))


def test_show_adds_up_what_a_retired_account_of_the_same_records_has_spent(site: Site) -> None:
    frame = patients()
    site.enter(**site.table(frame, "first"))
    with Ledger.open(site.folder / "ledger.sqlite") as ledger:
        ledger.retire("first")
    site.enter(**_by_person(site, frame))
    with Ledger.open(site.folder / "ledger.sqlite") as ledger:
        assert [report.retirements for report in account_reports(ledger.accounts())] == [0, 1]


@pytest.mark.parametrize("sample", ["sketch", "files"])
def test_samples_are_kept_under_the_ledgers_key_alone(site: Site, sample: str) -> None:
    """Who has an export, and guesses a record, finds nothing of it there."""
    frame = patients()
    for name in ("one", "two"):
        (site.folder / name).mkdir()
        Site(site.folder / name).enter(**site.table(frame, "first"))
    kept = []
    for name in ("one", "two"):
        with Ledger.open(site.folder / name / "ledger.sqlite") as ledger:
            kept.append(json.loads(ledger.rows()[0].content)[sample])
    assert all(len(one) > 16 * 100 for one in kept)
    numbers = [{one[place : place + 16] for place in range(0, len(one), 16)} for one in kept]
    assert not numbers[0] & numbers[1]
