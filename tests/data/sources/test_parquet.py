from pathlib import Path

import pandas as pd
import torch

from fl_dp.config.task import TaskSettings
from fl_dp.data.source import form_of, load_data

SCHEMA = """
split = "none"
[columns.a]
kind = "number"
range = [0, 10]
if-missing = "encode"
[columns.y]
kind = "label"
classes = [0, 1]
"""


def test_a_table_is_the_same_in_either_file(tmp_path: Path) -> None:
    (tmp_path / "t.schema.toml").write_text(SCHEMA)
    pd.DataFrame({"y": [0, 1, 1], "a": [2.5, None, 10.0]}).to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("a,y\n2.5,0\n,1\n10,1\n")
    typed = load_data(f"parquet:{tmp_path}/t.parquet", Path("data"), "train")
    texts = load_data(f"csv:{tmp_path}/t.csv", Path("data"), "train")
    assert typed.x.tolist() == [[-0.5, 0.0], [0.0, 1.0], [1.0, 0.0]]
    assert torch.equal(typed.x, texts.x)
    assert torch.equal(typed.y, texts.y)
    assert typed.fingerprint() == texts.fingerprint()
    assert form_of(TaskSettings(data=f"parquet:{tmp_path}/t.parquet")) == typed.form
