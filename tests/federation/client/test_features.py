"""Features change what is learned from records, and nothing of what the records have spent."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.federation.client.policy import check_plan
from fl_dp.federation.client.registration import task_identity
from fl_dp.federation.wire.arrays import encode, specs, state_arrays
from fl_dp.federation.wire.messages import plan_to_content, reply_from_content
from fl_dp.records import LocalUpdate, Refusal, RoundPlan
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import load_part
from fl_dp.training.trainer import trainable_arrays

pytest.importorskip("kymatio")


class Site:
    """A client on images, whose settings of features and model its operator may change."""

    def __init__(self, client: Any) -> None:
        numbers = np.random.default_rng(0)
        client.give(numbers.integers(0, 256, (100, 8, 8, 1)).astype(np.uint8), np.arange(100) % 3)
        self.client, self._before = client, client._file.read_text()

    def set(self, features: str, model: str) -> None:
        self.client._file.write_text(f'{self._before}\nfeatures = "{features}"\nmodel = "{model}"\n')

    def train(self, server_round: int, steps: int, **asked: Any) -> Any:
        """The answer to a server whose settings are the site's own, but for those `asked`."""
        own = ClientConfig.from_toml(self.client._file)
        task = task_of(own)
        task.form = load_part(own).form
        model = new_model(task)
        plan = RoundPlan(
            f"run of {own.features}", server_round, own.model, steps, 20, 0.5, 0.0, 3.0, 1.0,
            **{"task": task_identity(own), **asked},
        )  # fmt: skip
        answer = self.client.ask("train", plan_to_content(plan, encode(state_arrays(model))))
        return reply_from_content(answer, specs(trainable_arrays(model)))[0]


@pytest.fixture
def site(real_client: Any) -> Site:
    return Site(real_client("site"))


def accounts(ledger: Path) -> list[tuple[str, int]]:
    with Ledger.open(ledger) as opened:
        return [(one.fingerprint, sum(entry.steps for entry in one.spent())) for one in opened.accounts()]


def test_a_budget_is_not_had_a_second_time_by_features(site: Site) -> None:
    site.client.register()
    assert isinstance(site.train(1, 5), LocalUpdate)
    ((before, steps),) = accounts(site.client.ledger)
    assert steps == 5
    for number, (features, model) in enumerate(
        [("scatter:1", "norm-linear"), ("scatter:2", "linear"), ("", "linear")], start=2
    ):
        site.set(features, model)
        assert [entry.steps for entry in site.client.register().spent] == [steps]
        assert isinstance(site.train(number, 3), LocalUpdate)
        steps += 3
        assert accounts(site.client.ledger) == [(before, steps)]


def test_a_spent_budget_stays_spent_with_features(site: Site) -> None:
    while not isinstance(
        last := site.train(1 + sum(n for _, n in accounts(site.client.ledger)), 50), Refusal
    ):
        assert len(accounts(site.client.ledger)) == 1
    assert last.budget_exhausted
    site.set("scatter:1", "norm-linear")
    again = site.train(500, 1)
    assert isinstance(again, Refusal)
    assert again.budget_exhausted


def test_a_renamed_file_is_known_again_behind_features(site: Site, tmp_path: Path) -> None:
    assert isinstance(site.train(1, 5), LocalUpdate)
    copy = tmp_path / "elsewhere.npz"
    copy.write_bytes(site.client._data.read_bytes())
    site.set("scatter:1", "norm-linear")
    text = site.client._file.read_text().replace(str(site.client._data), str(copy))
    site.client._file.write_text(text)
    answer = site.train(2, 1)
    assert isinstance(answer, Refusal)
    assert len(accounts(site.client.ledger)) == 1


def test_sites_with_other_features_do_not_train_together(site: Site) -> None:
    settings = ClientConfig.from_toml(site.client._file)
    site.set("scatter:1", "norm-linear")
    answer = site.train(1, 1, task=task_identity(settings))  # of a server without features
    assert isinstance(answer, Refusal)
    assert "asks for task" in answer.reason
    names = {
        task_identity(ClientConfig(client="a", ledger="l", features=name)): name
        for name in ("", "scatter:1", "scatter:2")
    }
    assert len(names) == 3
    default = task_identity(ClientConfig(client="a", ledger="l", features="scatter"))
    assert names[default] == "scatter:2"


def test_features_are_not_augmented() -> None:
    with pytest.raises(ConfigError, match="augmentation = 'flip': expected none beside features = 'scatter'"):
        RunConfig(features="scatter", augmentation="flip")


def test_features_are_no_part_of_arithmetic_that_is_proven() -> None:
    words = r"features = 'scatter': expected none beside arithmetic = 'proven'"
    with pytest.raises(ConfigError, match=words):
        RunConfig(features="scatter", arithmetic="proven")
    with pytest.raises(ConfigError, match=words):
        ClientConfig(client="a", ledger="l", features="scatter", arithmetic="proven")
    own = ClientConfig(client="a", ledger="l", features="scatter")
    plan = RoundPlan("run", 1, "linear", 1, 5, 0.5, 0.0, 3.0, 1.0, task="t", arithmetic="proven")
    with pytest.raises(Exception, match="asks for arithmetic 'proven', this client's records are brought to"):
        check_plan(plan, own, public_size=10, task="t")
