"""The engine and the ledger work where nothing of a federation is installed."""

import subprocess
import sys
from importlib.metadata import version

import pytest
from docs.blocks import ROOT, file_in

import fl_dp

# Of the dependencies in pyproject.toml and the extras, all that docs/installing.md does not name.
ABSENT = (
    "ray flwr flwr_datasets uvicorn pandas pyarrow datasets typer rich click httpx sklearn PIL safetensors "
    "tomli_w google.protobuf transformers torchvision tensorboard matplotlib mlflow opacus peft timm"
)


@pytest.mark.parametrize("files", [False, True])
def test_a_loop_that_pays_needs_nothing_of_a_federation(tmp_path, files):
    example = file_in(ROOT / "docs" / "engineer.md", "job.py")
    if files:
        (tmp_path / "ehr.csv").write_text("age,ill\n1,2\n")
        example = example.replace('"ehr-2026", records=train', '"ehr", files=["ehr.csv"], size=2000')
    code = f"import sys\nsys.modules.update(dict.fromkeys({ABSENT.split()}))\n{example}"
    (tmp_path / "job.py").write_text(code)
    words = [sys.executable, "job.py", "first.pt"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    *_, epoch, end = done.stdout.splitlines()
    assert float(epoch.rpartition("epsilon of all runs ")[2]) > 0.6
    assert "all runs together" in end
    assert ("ASSUMED" in end) == files


def test_the_version_is_the_packages():
    assert fl_dp.__version__ == version("fl-dp")
