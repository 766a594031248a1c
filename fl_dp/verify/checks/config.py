"""config.toml: its digest, resolved.toml, and what the rounds say of the same settings."""

import math
from collections.abc import Mapping
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.config.flat import AUTO
from fl_dp.errors import ConfigError
from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.claims import ROUNDING, Claim, ClientClaim
from fl_dp.verify.reading import is_there, number, read_toml, sha256


def _run(evidence: Evidence, found: Found) -> None:
    folder, summary = evidence.folder, evidence.summary
    if not is_there(folder.config):
        found.not_given("config.toml", "nothing says what was asked for")
        return
    asked = read_toml(folder.config)
    digest = "config.toml has the digest that summary.json names; " if _check_digest(evidence, found) else ""
    keep = ["the rounds"]
    if is_there(folder.resolved):
        _check_resolved(asked, read_toml(folder.resolved), found)
        keep.append("resolved.toml")
    else:
        found.not_given("resolved.toml", "what auto became is known from the rounds alone")
    if summary is not None:
        _check_summary(asked, summary, found)
        for client in summary.clients.values():
            _check_client(asked, client, found)
        keep.append("summary and clients")
    _check_sums(asked, evidence, found)
    if not found.any_differ:
        found.agrees(f"{digest}{', '.join(keep)} agree with config.toml")


def _check_digest(evidence: Evidence, found: Found) -> bool:
    """Whether there is a digest to compare."""
    claimed = _digests(evidence.summary).get("config")
    if not claimed:
        found.not_given("a digest of config.toml", "the summary has none")
    elif claimed != sha256(evidence.folder.config):
        found.differs(
            "config.toml has another digest than summary.json says", "config.toml",
            "the settings were changed after the run",
        )  # fmt: skip
    return bool(claimed)


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
        "rounds": summary.round + together.rounds_ahead if together else None,
    }
    for key, value in pairs.items():
        if value is not None and key in asked and asked[key] != value:
            if key == "max-grad-norm" and not summary.private:
                continue  # not used
            found.differs(
                f"{key} is another one in summary.json",
                "config.toml",
                "the run did not do what it was asked for",
            )


def _check_client(asked: Mapping[str, Any], client: ClientClaim, found: Found) -> None:
    """The noise is as requested, and the sample rate is the expected batch over the public size."""
    noise = asked.get("noise-multiplier", AUTO)
    if client.noise_multiplier is not None and noise != AUTO and client.noise_multiplier != _number(noise):
        found.differs(
            f"noise multiplier {client.noise_multiplier:g}, and the config asks for another", client.where,
            "the noise that was added is not the one that was planned",
        )  # fmt: skip
    expected = _own_rate(asked, client)
    if client.sample_rate is None or expected is None:
        return
    if not math.isclose(client.sample_rate, expected, rel_tol=ROUNDING):
        found.differs(
            f"sample rate {client.sample_rate:.6g}, and batch over public size is {expected:.6g}",
            client.where,
            "the size or the rate was changed: a lower rate makes a lower epsilon",
        )  # fmt: skip


def _own_rate(asked: Mapping[str, Any], client: ClientClaim) -> float | None:
    batch = asked.get("expected-batch-size")
    if not client.public_size or batch is None:
        return None
    return min(_number(batch), client.public_size) / client.public_size


def _is_secure(asked: Mapping[str, Any]) -> bool:
    return asked.get("aggregation") == "secure"


def _check_sums(asked: Mapping[str, Any], evidence: Evidence, found: Found) -> None:
    """Shares of each round's steps: by the settings, and by the sum that its line says was opened.

    Without shares there is no epsilon alone.
    """
    masked = set()
    for claim in evidence.rounds():
        opened = claim.raw.get("secure_sum")
        shares = 1.0 if opened is None else _shares_of(asked, opened, claim.where)
        masked |= set() if opened is None else {opened["masked"]}
        lost = _is_secure(asked) and opened is None  # masks may or may not have come off then
        for client in claim.clients.values():
            fits = bool(claim.raw.get("lost")) if lost else client.shares == shares
            if client.status == "trained" and not fits:
                found.differs(
                    f"shares {client.shares} of its noise are not those of a sum that this round has opened "
                    "by config.toml", client.where,
                    "how the noise was made up was changed: more shares make a larger epsilon alone",
                )  # fmt: skip
    if not all(masked):
        found.note(
            "no masks were used: whoever ran this saw each client's part of its secure sums", "rounds.jsonl",
            "against them the epsilon alone holds, and not the smaller one",
        )  # fmt: skip
    said = evidence.summary.raw.get("masked") if evidence.summary else None
    if said is not None and said != all(masked):
        found.differs(
            "masked is another one in summary.json", "summary.json",
            "of sums that were added up in the clear, each part was seen",
        )  # fmt: skip


def _shares_of(asked: Mapping[str, Any], opened: object, where: str) -> float:
    """ConfigError for a sum that these settings cannot open. Clients that left before are no members."""
    if not _is_secure(asked) or type(opened) is not dict or type(opened.get("masked")) is not bool:
        raise ConfigError(f"{where}: its secure sum is none that config.toml asks for")
    shares, clients = _number(opened.get("shares")), _number(opened.get("clients"))
    least, dropouts = shares + _number(asked.get("secure-colluders")), _number(asked.get("secure-dropouts"))
    if not (shares >= 1 and least <= clients <= least + dropouts <= _number(asked.get("fit-clients"))):
        raise ConfigError(f"{where}: its secure sum is none that config.toml asks for")
    return shares


def _number(value: object) -> float:
    try:
        return number(value)
    except ValueError:
        raise ConfigError(
            "config.toml, or a secure sum, is damaged: what is to be a number is none."
        ) from None


CHECK = Check(place=5, run=_run)
