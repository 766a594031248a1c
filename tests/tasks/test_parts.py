"""What is told of each class and subgroup of test data: the means themselves, and what is withheld."""

import pytest
import torch
from sklearn import metrics as reference
from torch import Tensor, nn

from fl_dp.config.task import TaskSettings
from fl_dp.data.subgroups import Subgroups
from fl_dp.data.tensor_data import TensorData
from fl_dp.errors import ConfigError
from fl_dp.federation.server.evaluation import evaluate
from fl_dp.records import LEAST_CELL
from fl_dp.tasks.metric import check_metrics, metrics_of
from fl_dp.tasks.task import Task

CPU = torch.device("cpu")
RECORDS = 1200  # more than one batch


def data_of(y: Tensor, classes: tuple[str, ...], groups: tuple[str, ...] = (), **codes: Tensor) -> TensorData:
    random = torch.Generator().manual_seed(1)
    subgroups = tuple(
        Subgroups(name, (*(f"{name}{i}" for i in range(int(one.max()) + 1)), "other"), one)
        for name, one in codes.items()
    )
    return TensorData(
        torch.randn(len(y), 5, generator=random), y, classes, groups=groups, subgroups=subgroups
    )


def drawn(high: int, seed: int, size: int = RECORDS) -> Tensor:
    return torch.randint(high, (size,), generator=torch.Generator().manual_seed(seed))


def found(data: TensorData, *metrics: str, **settings: str | int) -> dict[str, float | None]:
    torch.manual_seed(0)
    task = Task(TaskSettings(**settings))  # type: ignore[arg-type]
    task.form = data.form
    return dict(evaluate(model_for(data), data, task, CPU, metrics).metrics)


def model_for(data: TensorData) -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(5, data.form.outputs)


def test_a_subgroups_accuracy_is_that_of_its_records_alone() -> None:
    data = data_of(drawn(3, 2), ("a", "b", "c"), sex=drawn(2, 3), ward=drawn(4, 4))
    told = found(data, "accuracy", "accuracy-per-subgroup", "accuracy-per-class")
    right = model_for(data)(data.x).argmax(1) == data.y
    expected = {"accuracy": right.double().mean()}
    for one in data.subgroups:
        for code, label in enumerate(one.labels[:-1]):
            name = f"accuracy-per-subgroup[{one.name} = {label}]"
            expected[name] = right[one.codes == code].double().mean()
    for label, name in enumerate(data.classes):
        expected[f"accuracy-per-class[{name}]"] = right[data.y == label].double().mean()
    assert told == {name: pytest.approx(float(value)) for name, value in expected.items()}
    assert list(told)[0] == "accuracy"  # noqa: RUF015  # the console's


OF_TWO = ("recall", "auroc", "selection-rate")


def test_of_two_classes_what_is_told_within_subgroups_is_that_of_their_records() -> None:
    """Against scikit-learn; a model with equal outputs, too."""
    data = data_of(drawn(2, 2), ("well", "ill"), sex=drawn(2, 3), ward=drawn(3, 4))
    data.x[::3] = 0.0  # equal scores
    outputs = model_for(data)(data.x).detach()
    scores, chosen, so = (outputs[:, 1] - outputs[:, 0]).numpy(), outputs.argmax(1).numpy(), data.y.numpy()
    masks = {
        f"{one.name} = {label}": one.codes.numpy() == code
        for one in data.subgroups
        for code, label in enumerate(one.labels[:-1])
    }
    expected = {}
    for name, cell in {"all": so >= 0, **masks}.items():
        expected |= {
            f"recall-per-subgroup[{name}]": reference.recall_score(so[cell], chosen[cell]),
            f"auroc-per-subgroup[{name}]": reference.roc_auc_score(so[cell], scores[cell]),
            f"selection-rate-per-subgroup[{name}]": chosen[cell].mean(),
        }
    told = found(data, *(f"{name}-per-subgroup" for name in OF_TWO))
    assert told == {name: pytest.approx(value) for name, value in expected.items()}


def test_within_subgroups_few_of_a_class_hide_the_metrics_of_classes_and_no_accuracy() -> None:
    """19 ill women: recall, and with it the men's, who are the others of the ill. The wards' is told."""
    sex, ward = drawn(2, 3), drawn(3, 4)
    ill = drawn(2, 2)
    ill[torch.nonzero(ill * sex)[LEAST_CELL - 1 :, 0]] = 0
    told = found(data_of(ill, ("well", "ill"), sex=sex, ward=ward))
    for name in OF_TWO:
        assert told[f"{name}-per-subgroup[sex = sex0]"] is told[f"{name}-per-subgroup[sex = sex1]"] is None
        assert told[f"{name}-per-subgroup[all]"] is not None
        assert told[f"{name}-per-subgroup[ward = ward2]"] is not None
    assert all(value is not None for name, value in told.items() if name.startswith("accuracy"))


def test_within_subgroups_small_ones_are_hidden_together_and_the_others_told() -> None:
    """Three of 19 records each, about half of them ill: together they are enough."""
    ward = drawn(2, 3)
    for small in range(3):
        ward[small * (LEAST_CELL - 1) : (small + 1) * (LEAST_CELL - 1)] = 2 + small
    told = found(data_of(drawn(2, 2), ("well", "ill"), ward=ward), *(f"{one}-per-subgroup" for one in OF_TWO))
    for name, value in told.items():
        assert (value is None) == any(f"ward{small}" in name for small in (2, 3, 4)), name


def test_a_model_without_numbers_has_no_auroc() -> None:
    data = data_of(drawn(2, 2), ("well", "ill"), sex=drawn(2, 3))
    data.x[data.subgroups[0].codes == 0] = float("nan")
    told = found(data, "auroc-per-subgroup")
    assert told["auroc-per-subgroup[sex = sex0]"] is told["auroc-per-subgroup[all]"] is None
    assert told["auroc-per-subgroup[sex = sex1]"] is not None


def test_where_classes_are_hidden_or_would_hide_an_accuracy_nothing_within_is_told() -> None:
    sex = drawn(2, 3)
    rare = (torch.arange(RECORDS) < LEAST_CELL - 1).long()
    within = sex.clone()  # all the ill, and a few who are well, are in one ward
    within[torch.nonzero(1 - sex)[: LEAST_CELL - 1, 0]] = 1
    for ill, ward in ((rare, sex), (sex, within)):
        told = found(data_of(ill, ("well", "ill"), ward=ward))
        assert all((value is None) == ("accuracy" not in name) for name, value in told.items()), told


def test_metrics_of_two_classes_are_refused_for_more() -> None:
    with pytest.raises(ConfigError, match="'recall-per-subgroup' is for two classes, not 3; accuracy-per-cl"):
        found(data_of(drawn(3, 2), ("a", "b", "c"), sex=drawn(2, 3)), "recall-per-subgroup")


def test_subgroups_of_numbers_and_of_labels() -> None:
    random = torch.Generator().manual_seed(0)
    numbers = torch.randn(RECORDS, 2, generator=random)
    data = data_of(numbers, (), sex=drawn(2, 3))
    with torch.no_grad():
        errors = (model_for(data)(data.x) - numbers).abs().mean(1)
    told = found(data, "mae-per-subgroup", loss="mse")
    expected = float(errors[data.subgroups[0].codes == 1].mean())
    assert told["mae-per-subgroup[sex = sex1]"] == pytest.approx(expected)
    labels = data_of((numbers > 0.3).float(), ("x", "y"), sex=drawn(2, 3))
    with torch.no_grad():
        right = ((model_for(labels)(labels.x) > 0) == (numbers > 0.3)).double().mean(1)
    told = found(labels, "label-accuracy-per-subgroup", loss="bce")
    expected = float(right[data.subgroups[0].codes == 0].mean())
    assert told["label-accuracy-per-subgroup[sex = sex0]"] == pytest.approx(expected)


@pytest.mark.parametrize("wrong", [float("inf"), float("nan")])
def test_a_mean_that_is_no_number_is_not_told_as_one(wrong: float) -> None:
    """A model that has diverged: JSON and trackers have no such number."""
    data = data_of(torch.zeros(RECORDS), (), sex=drawn(2, 3))
    outputs = torch.zeros(RECORDS, 1)
    outputs[int(data.subgroups[0].codes.argmax())] = wrong
    task = Task(TaskSettings(loss="mse"))
    task.form = data.form
    metrics = metrics_of(task, ("mae", "mae-per-subgroup"), data)
    metrics.update(outputs, data.y)
    told = {"mae": None, "mae-per-subgroup[sex = sex0]": 0.0, "mae-per-subgroup[sex = sex1]": None}
    assert metrics.values() == told


def test_what_is_declared_is_told_without_being_asked_for_unless_others_are() -> None:
    data = data_of(drawn(2, 2), ("a", "b"), sex=drawn(2, 3))
    parts = ["[sex = sex0]", "[sex = sex1]"]
    of_two = ["recall-per-subgroup", "auroc-per-subgroup", "selection-rate-per-subgroup"]
    subgroups = [f"accuracy-per-subgroup{part}" for part in parts]
    subgroups += [f"{name}{part}" for name in of_two for part in ("[all]", *parts)]
    assert list(found(data)) == ["accuracy", *subgroups]
    three = data_of(drawn(3, 2), ("a", "b", "c"), sex=drawn(2, 3))
    assert list(found(three)) == ["accuracy", *subgroups[:2]]
    assert list(found(data, "f1")) == ["f1"]
    assert list(found(data_of(drawn(2, 2), ("a", "b")))) == ["accuracy"]
    numbers = found(data_of(torch.randn(RECORDS), (), sex=drawn(2, 3)), loss="mse")
    assert [name.partition("[")[0] for name in numbers] == ["mae", "mae-per-subgroup", "mae-per-subgroup"]


def test_a_class_within_a_subgroup_hides_what_they_differ_in() -> None:
    """All the ill are in one ward, with a few who are well: that ward less the ill are the few."""
    ward = torch.arange(RECORDS) % 2
    ill = ward.clone()
    ill[torch.nonzero(ward)[: LEAST_CELL - 1, 0]] = 0
    data = data_of(ill, ("well", "ill"), ward=ward)
    both = found(data, "accuracy-per-class", "accuracy-per-subgroup")
    assert both["accuracy-per-class[ill]"] is not None
    assert both["accuracy-per-subgroup[ward = ward1]"] is None
    alone = found(data, "accuracy", "accuracy-per-subgroup")
    assert alone["accuracy-per-subgroup[ward = ward1]"] is not None
    # with f1, balanced accuracy or AUROC classes count, too
    assert found(data, "f1", "accuracy-per-subgroup")["accuracy-per-subgroup[ward = ward1]"] is None


@pytest.mark.parametrize("records", [0, 1, LEAST_CELL - 1, LEAST_CELL + 10])
def test_small_and_empty_subgroups_are_withheld_alike_and_an_empty_other_is_left_out(records: int) -> None:
    codes, ward = drawn(2, 3), drawn(3, 4)
    small, other = codes.clone(), codes.clone()
    small[:records], other[:records] = 2, 3
    data = data_of(drawn(2, 2), ("a", "b"), ward=ward)
    for one, label, there in ((small, "sex2", True), (other, "other", records > 0)):
        subgroups = (Subgroups("sex", ("sex0", "sex1", "sex2", "other"), one), *data.subgroups)
        told = found(TensorData(data.x, data.y, data.classes, subgroups=subgroups), "accuracy-per-subgroup")
        name = f"accuracy-per-subgroup[sex = {label}]"
        assert (name in told) == there
        assert (told.get(name) is not None) == (records >= LEAST_CELL)
        assert all(told[f"accuracy-per-subgroup[ward = ward{i}]"] is not None for i in range(3))


def test_other_means_over_classes_are_withheld_beside_hidden_classes() -> None:
    """With accuracy they are two equations in two unknowns."""
    rare = (torch.arange(RECORDS) < LEAST_CELL - 1).long()
    data = data_of(rare, ("a", "b"))
    told = found(data, "accuracy", "balanced-accuracy", "auroc", "f1", "accuracy-per-class")
    assert told.pop("accuracy") is not None
    assert set(told.values()) == {None}
    assert len(told) == 5
    assert None not in found(data, "accuracy", "balanced-accuracy", "auroc").values()
    even = data_of(drawn(2, 2), ("a", "b"))
    assert None not in found(even, "accuracy", "balanced-accuracy", "f1", "accuracy-per-class").values()


def test_where_privacy_is_for_persons_these_count() -> None:
    sex = torch.arange(RECORDS) % 2
    persons = tuple(f"{int(one)} {i % (LEAST_CELL - 1)}" for i, one in enumerate(torch.arange(RECORDS) % 2))
    data = data_of(drawn(2, 2), ("a", "b"), persons, sex=sex)
    name = "accuracy-per-subgroup[sex = sex1]"
    assert found(data)[name] is not None
    assert found(data, unit="person:whose", records_per_person=3)[name] is None


def test_asking_for_subgroups_that_nobody_declares_is_refused_before_a_run() -> None:
    data = data_of(drawn(2, 2), ("a", "b"))
    task = Task(TaskSettings())
    task.form = data.form
    with pytest.raises(ConfigError, match="'accuracy-per-subgroup': the test data declare no subgroups"):
        check_metrics(task, ("accuracy-per-subgroup",), data)
    check_metrics(task, ("accuracy",), data)
    check_metrics(task, ("accuracy-per-subgroup",), None)  # nothing is measured
    check_metrics(task, (), data_of(drawn(2, 2), ("a", "b"), sex=drawn(2, 3)))
    assert metrics_of(task, ("accuracy-per-subgroup",)).values() == {}
