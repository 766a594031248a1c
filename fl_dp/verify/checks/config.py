"""config.toml: its digest, its twin resolved.toml, and what the rounds say of the same settings."""

import math
from collections.abc import Mapping
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.config.flat import AUTO
from fl_dp.errors import ConfigError
from fl_dp.verify.check import Check, Evidence
from fl_dp.verify.claims import ROUNDING, Claim, ClientClaim
from fl_dp.verify.findings import Found
from fl_dp.verify.reading import is_there, number, read_toml, sha256


def _run(evidence: Evidence, found: Found) -> None:
    folder, summary = evidence.folder, evidence.summary
    if not is_there(folder.config):
        found.not_given("config.toml", "nothing says what was asked for")
        return
    asked = read_toml(folder.config)
    _check_digest(evidence, found)
    if is_there(folder.resolved):
        _check_resolved(asked, read_toml(folder.resolved), found)
    else:
        found.not_given("resolved.toml", "what auto became is known from the rounds alone")
    if summary is not None:
        _check_summary(asked, summary, found)
        for client in summary.clients.values():
            _check_client(asked, client, found)
    if not found.any_differ:
        found.agrees("config.toml has its digest, and resolved.toml, summary and clients keep to it")


def _check_digest(evidence: Evidence, found: Found) -> None:
    claimed = _digests(evidence.summary).get("config")
    if not claimed:
        found.not_given("a digest of config.toml", "the summary has none")
    elif claimed != sha256(evidence.folder.config):
        found.differs(
            "config.toml has another digest than summary.json says", "config.toml",
            "the settings were changed after the run",
        )  # fmt: skip


def _digests(summary: Claim | None) -> Mapping[str, Any]:
    found = summary.raw.get("digests") if summary else None
    return found if isinstance(found, dict) else {}


def _check_resolved(asked: Mapping[str, Any], resolved: Mapping[str, Any], found: Found) -> None:
    for key in sorted(asked.keys() | resolved.keys()):
        if key in asked and key in resolved and (asked[key] == resolved[key] or asked[key] == AUTO):
            continue
        found.differs(
            f"{clean(key)} is another one than in config.toml", "resolved.toml",
            "only what was auto may differ",
        )  # fmt: skip


def _check_summary(asked: Mapping[str, Any], summary: Claim, found: Found) -> None:
    together = summary.together
    pairs = {
        "privacy": "on" if summary.private else "off",
        "max-grad-norm": summary.raw.get("max_grad_norm"),
        "clients-per-person": together.clients_per_person if together else None,
        "rounds": summary.round + together.rounds_ahead if together else None,
    }
    for key, value in pairs.items():
        if value is not None and key in asked and asked[key] != value:
            if key == "max-grad-norm" and not summary.private:
                continue  # it is not used
            found.differs(
                f"{key} is another one in summary.json",
                "config.toml",
                "the run did not do what it was asked for",
            )


def _check_client(asked: Mapping[str, Any], client: ClientClaim, found: Found) -> None:
    """Noise as asked for; and the expected batch over the public size is the sample rate."""
    noise, batch = asked.get("noise-multiplier", AUTO), asked.get("expected-batch-size")
    if client.noise_multiplier is not None and noise != AUTO and client.noise_multiplier != _number(noise):
        found.differs(
            f"noise multiplier {client.noise_multiplier:g}, and the config asks for another", client.where,
            "the noise that was added is not the one that was planned",
        )  # fmt: skip
    if client.sample_rate is None or not client.public_size or batch is None:
        return
    expected = min(_number(batch), client.public_size) / client.public_size
    if not math.isclose(client.sample_rate, expected, rel_tol=ROUNDING):
        found.differs(
            f"sample rate {client.sample_rate:.6g}, and batch over public size is {expected:.6g}",
            client.where,
            "the size or the rate was changed: a lower rate makes a lower epsilon",
        )  # fmt: skip


def _number(value: object) -> float:
    try:
        return number(value)
    except ValueError:
        raise ConfigError(
            "config.toml is damaged: noise-multiplier or expected-batch-size is no number."
        ) from None


CHECK = Check(place=5, run=_run)
