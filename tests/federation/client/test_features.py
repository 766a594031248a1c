"""Features change what is learned from records, and nothing of what the records have spent."""

from typing import Any

import numpy as np
import pytest

from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError, DeclinedError
from fl_dp.federation.client.policy import check_plan
from fl_dp.federation.client.registration import task_identity
from fl_dp.records import RoundPlan
from fl_dp.tasks.load import new_model, task_of
from fl_dp.tasks.records import load_part

pytest.importorskip("kymatio")


class Imaging:
    """A client on images, whose settings of features and model its operator may change."""

    def __init__(self, client: Any) -> None:
        numbers = np.random.default_rng(0)
        client.give(numbers.integers(0, 256, (100, 8, 8, 1)).astype(np.uint8), np.arange(100) % 3)
        self.client, self._before = client, client.file.read_text()

    def set(self, features: str, model: str) -> None:
        self.client.file.write_text(f'{self._before}\nfeatures = "{features}"\nmodel = "{model}"\n')

    def train(self, server_round: int, steps: int, **asked: Any) -> Any:
        """The answer to a server whose settings are the site's own, but for those `asked`."""
        own = self.client.config
        task = task_of(own)
        task.form = load_part(own).form
        plan = RoundPlan(
            f"run of {own.features}",
            server_round,
            own.model,
            steps,
            20,
            0.5,
            0.0,
            3.0,
            1.0,
            **{"task": task_identity(own), **asked},
        )
        return self.client.train(plan, model=new_model(task))

    def accounts(self) -> list[tuple[str, int]]:
        with Ledger.open(self.client.ledger) as opened:
            return [(one.fingerprint, sum(entry.steps for entry in one.spent())) for one in opened.accounts()]


@pytest.fixture
def site(real_client: Any) -> Imaging:
    return Imaging(real_client("site"))


def test_a_budget_is_not_had_a_second_time_by_features(site: Imaging) -> None:
    assert site.train(1, 5).steps == 5
    ((before, _),) = site.accounts()
    for number, (features, model) in enumerate(
        [("scatter:1", "norm-linear"), ("scatter:2", "linear"), ("", "linear")], start=2
    ):
        site.set(features, model)
        assert site.client.register().spent[0].steps == 3 * number - 1
        assert site.train(number, 3).steps == 3
        assert site.accounts() == [(before, 3 * number + 2)]


def test_a_renamed_file_is_known_again_behind_features(site: Imaging) -> None:
    site.train(1, 5)
    copy = site.client.data.with_name("elsewhere.npz")
    copy.write_bytes(site.client.data.read_bytes())
    site.set("scatter:1", "norm-linear")
    site.client.file.write_text(site.client.file.read_text().replace("data.npz", copy.name))
    assert site.train(2, 1).status == "failed"
    assert len(site.accounts()) == 1


def test_sites_with_other_features_do_not_train_together(site: Imaging) -> None:
    settings = site.client.config
    site.set("scatter:1", "norm-linear")
    answer = site.train(1, 1, task=task_identity(settings))  # of a server without features
    assert "asks for task" in answer.reason
    names = [
        task_identity(ClientConfig(client="a", ledger="l", features=name))
        for name in ("", "scatter:1", "scatter:2", "scatter")
    ]
    assert len(set(names)) == 3
    assert names[2] == names[3]  # the default


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"augmentation": "flip"}, "augmentation = 'flip': expected no value with features = 'scatter'"),
        ({"arithmetic": "proven"}, "features = 'scatter': expected no features with arithmetic = 'proven'"),
    ],
)
def test_features_are_not_augmented_and_no_part_of_arithmetic_that_is_proven(
    settings: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        RunConfig(features="scatter", **settings)


def test_a_client_with_features_declines_arithmetic_that_is_proven() -> None:
    with pytest.raises(ConfigError, match="expected no features with arithmetic = 'proven'"):
        ClientConfig(client="a", ledger="l", features="scatter", arithmetic="proven")
    own = ClientConfig(client="a", ledger="l", features="scatter")
    plan = RoundPlan("run", 1, "linear", 1, 5, 0.5, 0.0, 3.0, 1.0, task="t", arithmetic="proven")
    with pytest.raises(DeclinedError, match="asks for arithmetic 'proven', but this client computes"):
        check_plan(plan, own, public_size=10, task="t")
