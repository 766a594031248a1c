"""A base class for objects that can neither be changed nor copied once they are made."""

from typing import Any, NoReturn, SupportsIndex

from fl_dp.errors import ConfigError


class Fixed:
    """Refuses copies, and assignment to any public name, known or not, after `_is_made` was set.

    A setting by which steps are priced must not change under them; nothing would read a misspelt one.
    """

    _is_made = False

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_made and not name.startswith("_"):
            raise ConfigError(
                f"engine.{name} cannot be assigned: what steps do and cost is fixed when the engine is made. "
                "Give it to PrivacyEngine(...), where noise_multiplier and max_grad_norm may be tables with "
                "one number for each step."
            )
        super().__setattr__(name, value)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise ConfigError(
            "A copy of an engine would repeat its noise; make a new one, and load state_dict()."
        )
