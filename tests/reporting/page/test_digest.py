import os

import pytest

from fl_dp.errors import ConfigError
from fl_dp.reporting.provenance import digested_files, page_digest

from .conftest import Make


def test_every_file_counts_and_the_page_itself_does_not(make: Make) -> None:
    folder = make()
    (folder.path / "approval.toml").write_text('purpose = "x"\n')
    seen = {page_digest(folder)}
    for file in digested_files(folder):
        file.write_bytes(file.read_bytes() + b"\n")
        seen.add(page_digest(folder))
    assert len(seen) == 1 + len(digested_files(folder)) == 9
    folder.report.write_text("anything")
    assert page_digest(folder) in seen


@pytest.mark.parametrize("digest", ["ba" * 32, "\\ud800"])
def test_the_models_digest_counts_whatever_stands_there(make: Make, digest: str) -> None:
    folder = make()
    before = page_digest(folder)
    folder.summary.write_text(folder.summary.read_text().replace("ab" * 32, digest))
    assert page_digest(folder) != before


@pytest.mark.parametrize("missing", ["statements.json", "summary.json"])
def test_what_is_not_there_is_left_out(make: Make, missing: str) -> None:
    folder = make()
    before = page_digest(folder)
    (folder.path / missing).unlink()
    assert page_digest(folder) != before


def test_a_pipe_in_the_folder_is_not_waited_for(make: Make) -> None:
    folder = make()
    os.mkfifo(folder.path / "approval.toml")
    with pytest.raises(ConfigError, match=r"approval\.toml: cannot be read: it is not a regular file"):
        page_digest(folder)
