"""What nobody has signed of a model's file decides nothing of the model."""

import pytest
import torch
from torch import nn

from fl_dp.api.rebuild import _check_ties
from fl_dp.errors import ConfigError
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.weights_digest import weights_digest


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.other, self.second = (nn.Linear(3, 3, bias=False) for _ in range(3))
        self.second.weight = self.first.weight


def test_a_second_name_with_the_values_of_another_tensor_is_refused(tmp_path):
    """The digest is that of the run's model; loaded, the first layer would have the other one's weights."""
    network, folder = Tied(), RunFolder(tmp_path)
    sound = {name: one.clone() for name, one in network.state_dict().items()}
    sound["second.weight"] = sound["first.weight"]
    forged = {**sound, "second.weight": sound["other.weight"]}
    assert weights_digest(sound) == weights_digest(forged)
    network.load_state_dict(sound)
    _check_ties(network, sound, folder)
    network.load_state_dict(forged)
    with pytest.raises(ConfigError, match=r"two values for one tensor of the model, first\.weight"):
        _check_ties(network, forged, folder)


def test_values_that_are_no_numbers_are_still_equal(tmp_path):
    network = nn.Linear(1, 1)
    weights = {name: torch.full_like(one, float("nan")) for name, one in network.state_dict().items()}
    network.load_state_dict(weights)
    _check_ties(network, weights, RunFolder(tmp_path))
