import os
from pathlib import Path

import pytest
from run_records import record, summary

from fl_dp.errors import ConfigError
from fl_dp.reporting.run_folder import RunFolder, check_unclaimed, claim_folder
from fl_dp.reporting.run_results import RunResults


def test_runs_that_start_in_the_same_second_get_folders_of_their_own(tmp_path: Path) -> None:
    folders = {claim_folder(None, tmp_path / "runs").path for _ in range(3)}
    assert len(folders) == 3
    assert all(folder.is_absolute() and (folder / "logs").is_dir() for folder in folders)


@pytest.mark.parametrize("taken", ["run", "file", "link to a run"])
def test_a_folder_that_holds_a_run_is_refused_and_known_beforehand(tmp_path: Path, taken: str) -> None:
    """In the same words, and nothing is made."""
    out = tmp_path / "deep" / "out"
    out.parent.mkdir()
    if taken == "file":
        out.touch()
    else:
        claim_folder(tmp_path / "other" if "link" in taken else out)
    if "link" in taken:
        out.symlink_to(tmp_path / "other")
    with pytest.raises(ConfigError, match=r"--out .*out: already holds a run") as refused:
        claim_folder(out)
    with pytest.raises(ConfigError) as foreseen:
        check_unclaimed(out)
    assert str(foreseen.value) == str(refused.value)
    check_unclaimed(tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_with_other_files_serves(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    assert claim_folder(tmp_path).path == tmp_path


def test_a_folder_is_shown_as_a_person_would_type_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert RunFolder(tmp_path / "runs" / "a").shown == Path("runs/a")
    assert RunFolder(Path("/elsewhere")).shown == Path("/elsewhere")


def test_a_runs_folder_is_for_the_owner_alone(tmp_path: Path) -> None:
    """Its lock could be held by any account, and its rounds and summary read."""
    for folder in (claim_folder(tmp_path / "out"), claim_folder(None, tmp_path / "runs")):
        closed = (folder.path, folder.logs, folder.clients)
        assert [one.stat().st_mode & 0o777 for one in closed] == [0o700] * 3
    umask = os.umask(0)
    try:
        (tmp_path / "shared").mkdir()  # as somebody wants it: what is private in it is closed by itself
        results = RunResults(tmp_path / "shared")
        results.append_round("{}")
        results.go_on_after(record())
        results.write_summary(summary())
    finally:
        os.umask(umask)
    assert [one.stat().st_mode & 0o777 for one in (tmp_path / "shared").iterdir()] == [0o600] * 2
