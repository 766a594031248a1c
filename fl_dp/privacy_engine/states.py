"""An engine's state: what a resumed run must know of the steps before."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch

from fl_dp.engine.bounds import Bounds
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.private_step import PrivateStep
from fl_dp.privacy_engine.settings import check_same_settings

_STATE = "privacy_engine"  # in the state of an optimizer


class States(PrivateStep):
    """The half of `PrivacyEngine` that saves and loads."""

    def state_dict(self) -> dict[str, Any]:
        """What `load_state_dict` needs to continue training, with new noise.

        Save the optimizer, the model and the sampler as well. Nothing here is secret. The state of the noise
        is left out: whoever continues from here draws new noise from the system's entropy, so that two
        continuations share none.
        Raises ConfigError in the middle of a logical batch: what virtual steps have gathered is raw data.
        """
        if self._pending is not None or (self._ranks is not None and self._ranks.examples):
            raise ConfigError(
                "The state was asked for in the middle of a logical batch: what virtual steps have "
                "gathered has no noise yet and is not saved. Save after optimizer.step."
            )
        self._note_buffers()
        return {"settings": self._settings(), **self._steps.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from the engine of `state`, with new noise; what virtual steps have gathered is dropped.

        Epsilon then covers the steps up to `state` and this engine's own steps since. If several
        continuations of one state are released, add up the steps of all of them.
        Raises ConfigError if that engine had other settings, because its steps would be priced wrongly,
        and if this one was given a `torch.Generator`: earlier steps may already have used its numbers.
        """
        if isinstance(self._generator, torch.Generator):
            raise ConfigError(
                "An engine with your own generator cannot continue from a saved state: nobody can tell "
                "which of its numbers were already used as noise. Leave out generator=, or pass 'secure'."
            )
        check_same_settings(state["settings"], self._settings())
        self._steps.load_state_dict(state)
        self._drop_pending()

    def _add_state(self, _: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        """Trainers save this state. Without the count, a resumed run would forget its steps."""
        state[_STATE] = self.state_dict()

    def _take_state(self, _: torch.optim.Optimizer, state: dict[str, Any]) -> None:
        if _STATE not in state:
            self._has_state |= bool(state["state"])
        elif any(one["taken"] for one in state[_STATE]["series"]):  # accelerate loads what it just saved
            self.load_state_dict(state[_STATE])

    def _settings(self) -> dict[str, Any]:
        """The settings that decide the price of a step, and the kind of its noise."""
        return {
            "sample_rate": self.sample_rate,
            "noise_multiplier": self.noise_multiplier,
            "max_grad_norm": _plain(self.max_grad_norm),
            "clipping": {"name": self.clipping.name, **asdict(self.clipping)},
            "generator": "torch" if isinstance(self._generator, torch.Generator) else self._generator,
        }


def _plain(bounds: Bounds) -> Bounds:
    return dict(bounds) if isinstance(bounds, Mapping) else bounds
