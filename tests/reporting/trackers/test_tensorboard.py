"""Event files that TensorBoard reads, and that say nothing of this machine."""

from pathlib import Path

import pytest
from tracked import WORD, pretend, told_of_this_machine

from fl_dp.reporting.trackers.tensorboard import TRACKER

pytest.importorskip("tensorboard", reason="TensorBoard is not installed")


def read(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """All scalars, by name, as TensorBoard itself reads them."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"tensors": 0, "scalars": 0})
    found.Reload()
    return {name: [(one.step, one.value) for one in found.Scalars(name)] for name in found.Tags()["scalars"]}


@pytest.mark.filterwarnings("ignore")  # TensorBoard's own, of its imports
def test_a_run_that_went_on_is_one_curve_and_names_nothing_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, tmp_path)
    run = TRACKER.open(tmp_path, {"epsilon": 3.0})
    for number in (1, 2):
        run.log(number, {"model/loss": 1 / number})
        print(WORD)
    run = TRACKER.open(tmp_path, {"epsilon": 3.0})  # the first was killed
    run.log(3, {"model/loss": 0.25})
    run.close()
    assert read(tmp_path) == {"model/loss": [(1, 1.0), (2, 0.5), (3, 0.25)]}
    assert told_of_this_machine(tmp_path) == []
    assert [path.name for path in sorted(tmp_path.iterdir())] == [
        f"events.out.tfevents.000000000{number}.fl-dp" for number in (1, 2)
    ]


@pytest.mark.filterwarnings("ignore")
def test_the_settings_stand_there_as_a_text(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    TRACKER.open(tmp_path, {"epsilon": 3.0}).close()
    found = EventAccumulator(str(tmp_path))
    found.Reload()
    (one,) = found.Tensors("settings/text_summary")
    assert b'"epsilon": 3.0' in one.tensor_proto.string_val[0]
