"""Made-up tables of many shapes, and a site that enters them in its ledger."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.federation.client.registration import registration_of
from fl_dp.tasks.records import load_part

COLUMNS = {
    "patient": 'kind = "ignore"',
    "age": 'kind = "number"\nrange = [18, 90]',
    "sex": 'kind = "category"\ncategories = ["f", "m"]',
    "pressure": 'kind = "number"\nrange = [90, 200]',
    "cholesterol": 'kind = "number"\nrange = [2, 9]',
    "weight": 'kind = "number"\nrange = [40, 160]',
    "ward": 'kind = "category"\ncategories = ["a", "b", "c"]',
    "ill": 'kind = "label"\nclasses = ["no", "yes"]',
}
LABEL, IGNORED, NUMBER = COLUMNS["ill"], 'kind = "ignore"', 'kind = "number"\nrange = [-9e9, 9e9]'


def patients(seed: int = 0, count: int = 600) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "patient": [f"P{number:05}" for number in draw.integers(0, 10**5, count)],
            "age": draw.integers(18, 91, count),
            "sex": draw.choice(["f", "m"], count),
            "pressure": draw.normal(135, 18, count).round().astype(int),
            "cholesterol": draw.normal(5.2, 1, count).clip(2, 9).round(3),
            "weight": draw.normal(80, 16, count).clip(40, 160).round(1),
            "ward": draw.choice(["a", "b", "c"], count),
            "ill": draw.choice(["no", "yes"], count),
        }
    )


@dataclass
class Site:
    """A folder with data, and one ledger."""

    folder: Path

    def enter(self, **settings: Any) -> None:
        config = ClientConfig(client="north", ledger=str(self.folder / "ledger.sqlite"), **settings)
        with Ledger.open(Path(config.ledger)) as ledger:
            ledger.register_all([registration_of(load_part(config), config)])

    def table(
        self, frame: pd.DataFrame, name: str = "new", more: str = "", csv: Any = (), **columns: str
    ) -> dict[str, Any]:
        """Settings for the table in a file of that name, its schema beside it."""
        path = self.folder / f"{name}.csv"
        frame.to_csv(path, index=False, **dict(csv))
        declared = {**COLUMNS, **columns}
        parts = [f'[columns."{column}"]\n{declared[column]}\n' for column in frame]
        path.with_suffix(".schema.toml").write_text(f'split = "none"\n{more}\n' + "\n".join(parts))
        return {"data": f"csv:{path}", "data_name": name}


def hours(seed: int) -> pd.DataFrame:
    """Of one sensor; all have the same hours, and number their rows."""
    draw = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "patient": pd.date_range("2026-01-01", periods=600, freq="h").astype(str),
            "age": range(600),
            "weight": draw.normal(80, 16, 600).clip(40, 160).round(1),
            "pressure": draw.integers(90, 200, 600),
            "ill": draw.choice(["no", "yes"], 600),
        }
    )


def visits(seed: int) -> pd.DataFrame:
    """Four of each person, whose numbers begin at 1 everywhere."""
    frame = patients(seed, 150).loc[lambda frame: frame.index.repeat(4)].reset_index(drop=True)
    frame["patient"] = [f"P{1 + row // 4:05}" for row in range(600)]
    frame["pressure"] = np.random.default_rng(seed).integers(90, 200, 600)
    return frame.assign(visit=np.arange(600) % 4)


def answers(seed: int) -> pd.DataFrame:
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame(draw.integers(18, 24, (600, 14)), columns=[f"q{number}" for number in range(14)])
    return frame.assign(ill=draw.choice(["no", "yes"], 600))


def clusters(seed: int) -> pd.DataFrame:
    frame = patients(seed)
    missing = np.random.default_rng(seed).random(600) < 0.3
    frame.loc[missing, ["pressure", "cholesterol", "weight"]] = np.nan
    return frame


def yes_or_no(seed: int) -> pd.DataFrame:
    answers = np.random.default_rng(seed).choice(["f", "m"], (600, 30))
    return (
        pd.DataFrame(answers)
        .add_prefix("q")
        .assign(ill=lambda frame: frame["q0"].map({"f": "no", "m": "yes"}))
    )


def many_without_ids(seed: int) -> pd.DataFrame:
    return patients(seed, 3000).drop(columns="patient")


def many_columns(seed: int) -> pd.DataFrame:
    measured = np.random.default_rng(seed).normal(100, 9, (600, 40)).round(1)
    return pd.DataFrame(measured).add_prefix("lab").assign(ill=patients(seed)["ill"])


def kind_of(column: str, values: pd.Series) -> str:  # type: ignore[type-arg]
    if column.lower() == "ill":
        return LABEL
    return COLUMNS["sex"] if set(values) <= {"f", "m"} else COLUMNS.get(column, NUMBER)
