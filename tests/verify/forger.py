"""What a forger who writes a run's whole folder, and makes every digest in it anew, can change."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import tomli_w
import torch
from verify.made_run import DELTA, RATE, SIZE, STEPS, Json, MadeRun, add_up, charges, epsilon, signed

from fl_dp.accounting.epsilon import compute_epsilon
from fl_dp.kits.keys import SigningKey
from fl_dp.records import Entry
from fl_dp.statements import Statement


def scaled(share: float) -> Callable[[Json], None]:
    """Every epsilon that stands in a line or the summary."""

    def change(line: Json) -> None:
        for one in (line, line["federation"], *line["clients"].values()):
            for name in {"epsilon", "planned_epsilon", "largest", "median", "least"} & one.keys():
                one[name] *= share

    return change


def lowered(steps: int) -> Callable[[Json], None]:
    """A forger who counts `steps` a round instead of STEPS, and every epsilon that follows."""

    def change(line: Json) -> None:
        for client in line["clients"].values():
            less = client["steps"] // STEPS * steps
            client["steps"], client["charges"] = less, [one.to_dict() for one in charges(less)]
            client["epsilon"] = epsilon(less)
            if client.get("reported"):
                client["reported"]["steps"] = steps
            if "planned_epsilon" in client:
                client["planned_epsilon"] = epsilon(less)
        add_up(line)

    return change


def noisier(line: Json) -> None:
    for client in line["clients"].values():
        for one in (client, *client["charges"]):
            one["noise_multiplier"] *= 2


def less_charged(line: Json) -> None:
    for one in line["clients"].values():
        for entry in one["charges"]:
            entry["steps"] //= 2


def of_clients(**fields: Any) -> Callable[[MadeRun], None]:
    """Everywhere, for every client."""
    return lambda run: run.change_both(lambda line: [one.update(fields) for one in line["clients"].values()])


def of_both(**fields: Any) -> Callable[[MadeRun], None]:
    return lambda run: run.change_both(lambda line: line.update(fields))


def of_summary(**fields: Any) -> Callable[[MadeRun], None]:
    return lambda run: run.change_summary(lambda summary: summary.update(fields))


def of_federation(**fields: Any) -> Callable[[MadeRun], None]:
    return lambda run: run.change_both(lambda line: line["federation"].update(fields))


def of_settings(**values: Any) -> Callable[[MadeRun], None]:
    """In config.toml and resolved.toml."""

    def change(run: MadeRun) -> None:
        for file in (run.files.config, run.files.resolved):
            found = tomllib.loads(file.read_text())
            file.write_text(
                tomli_w.dumps({**found, **{key.replace("_", "-"): one for key, one in values.items()}})
            )

    return change


def of_model_json(**fields: Any) -> Callable[[MadeRun], None]:
    def change(run: MadeRun) -> None:
        found = json.loads(run.files.description.read_text())
        run.files.description.write_text(json.dumps({**found, **fields}))

    return change


def of_statement(**fields: Any) -> Callable[[MadeRun], None]:
    """In north's text, whose signature stays."""

    def change(run: MadeRun) -> None:
        first, *rest = run.statements()
        said = json.loads(first["text"])
        for name, value in fields.items():
            (said if name in said else said["accounts"][0])[name] = value
        text = json.dumps(said, sort_keys=True, separators=(",", ":"))
        run.write_statements([{**first, "text": text}, *rest])

    return change


def signed_by_the_forger(run: MadeRun) -> None:
    """Whatever the summary says, by a key that the forger has made."""
    key, found = SigningKey.generate(), json.loads(run.files.summary.read_text())["clients"]
    forged = []
    for one in run.statements():
        said = Statement.from_text(one["text"])
        steps = found[said.accounts[0].client]["steps"]
        account = replace(said.accounts[0], spent=charges(steps), epsilon=epsilon(steps))
        new = signed(replace(said, accounts=(account,)), key)
        forged.append({"text": new.text, "key": new.key, "signature": new.signature})
    run.write_statements(forged)


def without_south(run: MadeRun) -> None:
    """All that was written of south is gone, and what follows from both is that of north."""

    def change(line: Json) -> None:
        del line["clients"]["south"]
        add_up(line)

    run.change_both(change)
    run.write_statements(run.statements()[:1])


def larger(run: MadeRun) -> None:
    """Twice the public size, half the rate, and the epsilons that follow."""
    of_clients(sample_rate=RATE / 2)(run)
    run.change_summary(lambda said: [one.update(public_size=2 * SIZE) for one in said["clients"].values()])

    def change(line: Json) -> None:
        for one in line["clients"].values():
            spent = [Entry.from_dict(entry) for entry in one["charges"]]
            less = [replace(entry, sample_rate=RATE / 2) for entry in spent]
            one |= {"charges": [entry.to_dict() for entry in less], "epsilon": compute_epsilon(less, DELTA)}
            one |= {"planned_epsilon": one["epsilon"]} if "planned_epsilon" in one else {}
        add_up(line)

    run.change_both(change)


def half_before(run: MadeRun) -> None:
    """All that was spent stays as it is signed; each round has half its steps, the rest was there before."""
    final = json.loads(run.files.summary.read_text())["clients"]

    def change(line: Json) -> None:
        for name, one in line["clients"].items():
            own, before = one["steps"] // 2, final[name]["steps"] // 2
            cost = {"charges": [entry.to_dict() for entry in charges(own)], "epsilon": epsilon(own)}
            spent = [entry.to_dict() for entry in charges(before + own)]
            one |= {
                "steps": before + own,
                "charges": spent,
                "epsilon": epsilon(before + own),
                "this_run": cost,
            }
            if one.get("reported"):
                one["reported"]["steps"] //= 2
            if "before" in one:
                one["before"] = [entry.to_dict() for entry in charges(before)]
                cost |= {"planned_epsilon": epsilon(own), "claimed_epsilon": epsilon(before)}
        add_up(line)

    run.change_both(change)


def declined_for(reason: str) -> Callable[[MadeRun], None]:
    def change(line: Json) -> None:
        for one in line["clients"].values():
            one["reason"] = reason if one["status"] == "declined" else one["reason"]

    return lambda run: run.change_both(change)


def other_weights(run: MadeRun) -> None:
    torch.save({"weight": torch.zeros(3, 4), "bias": torch.ones(3)}, run.files.model(private=True))


def called_unprotected(run: MadeRun) -> None:
    run.files.model(private=True).rename(run.files.model(private=False))
    of_both(private=False)(run)


def cut_off(run: MadeRun) -> None:
    lines = run.files.rounds.read_text().splitlines(keepends=True)
    run.files.rounds.write_text("".join(lines[:-1]))


def all_of(*changes: Callable[[MadeRun], None]) -> Callable[[MadeRun], None]:
    def change(run: MadeRun) -> None:
        for one in changes:
            one(run)

    return change


@dataclass(frozen=True)
class Forgery:
    """change: before digests are made anew and the page drawn; after: when that is done.

    found: by these checks, with a roster; ledgers: with the sites' ledgers, too. unsigned: without ledgers
    nothing finds it, and these words of `UNSIGNED` warn of it.
    """

    change: Callable[[MadeRun], None] = lambda run: None
    after: Callable[[MadeRun], None] = lambda run: None
    found: tuple[str, ...] = ()
    ledgers: bool = False
    unsigned: str = ""


def both(change: Callable[[Json], None]) -> Callable[[MadeRun], None]:
    return lambda run: run.change_both(change)


def silent(run: MadeRun) -> None:
    run.files.statements.unlink()


HALF = both(lowered(STEPS // 2))

FORGERIES = {
    "every epsilon, in rounds.jsonl and summary.json": Forgery(
        both(scaled(0.99)), found=("epsilons", "statements")
    ),
    "charges alone": Forgery(both(less_charged), found=("epsilons", "files", "statements")),
    "steps, charges and epsilons everywhere": Forgery(HALF, found=("statements",)),
    "the same, and the statements signed by the forger": Forgery(
        all_of(HALF, signed_by_the_forger), found=("statements",)
    ),
    "the same, and the statements taken away": Forgery(
        all_of(HALF, silent), found=("ledgers",), ledgers=True
    ),
    "noise multipliers raised": Forgery(both(noisier), found=("epsilons", "statements")),
    "public sizes raised, rates and epsilons lowered": Forgery(larger, found=("statements",)),
    "delta": Forgery(
        all_of(of_clients(delta=DELTA / 10), of_both(delta=DELTA / 10)), found=("epsilons", "statements")
    ),
    "budgets": Forgery(of_clients(budget=9.0), found=("statements",)),
    "the accountant": Forgery(
        all_of(of_clients(accountant="rdp"), of_federation(accountants=["rdp"])), found=("statements",)
    ),
    "arithmetic, to a stronger claim": Forgery(
        all_of(of_clients(arithmetic="proven"), of_federation(arithmetic="proven")), found=("statements",)
    ),
    "the unit, from records to persons": Forgery(of_federation(unit="person"), found=("statements",)),
    "retired accounts": Forgery(lambda run: run.change_client(retired=2), found=("statements",)),
    "the run's name": Forgery(of_summary(run="7002"), found=("statements",)),
    "that the run was private": Forgery(called_unprotected, found=("files",)),
    "the model": Forgery(after=other_weights, found=("files",)),
    "the model, and its digest": Forgery(other_weights, found=("statements",)),
    "a number in a statement": Forgery(of_statement(public_size=641), found=("statements",)),
    "the name of the data in a statement": Forgery(of_statement(data="synthetic"), found=("statements",)),
    "the commitment to a ledger": Forgery(of_statement(commitment="00" * 32), found=("statements",)),
    "that a signed run was a simulation": Forgery(
        lambda run: run.files.launch.write_text('engine = "ray"\n'), found=("statements",)
    ),
    "the last round": Forgery(cut_off, found=("files",)),
    "a client, with all that it has said": Forgery(without_south, unsigned="which other clients took part"),
    "`data` and `data-name` in the settings, and model.json": Forgery(
        all_of(of_settings(data="mnist", data_name="Synthetic, no patients"), of_model_json(data="mnist")),
        unsigned="what the server's operator calls the data",
    ),
    "columns and classes": Forgery(
        of_model_json(classes=["ill", "well"], schema="[columns.age]\nkind = 'number'\n"),
        unsigned="the data's columns, classes and form",
    ),
    "the model's name and the loss": Forgery(
        all_of(of_settings(model="tanh-cnn", loss="mse"), of_model_json(model="tanh-cnn", loss="mse")),
        unsigned="the model's name, the loss, the task and the identity of its code",
    ),
    "the learning rate": Forgery(
        of_settings(learning_rate=0.125), unsigned="all settings of the server, and how the run was launched"
    ),
    "the clipping bound, in all files": Forgery(
        all_of(of_settings(max_grad_norm=9.0), of_summary(max_grad_norm=9.0)),
        unsigned="noise, rates and clipping bound of this run by themselves, apart from all that was spent",
    ),
    "half of what this run has cost, called spent before it": Forgery(half_before, found=("statements",)),
    "how many rounds clients could still run": Forgery(
        lambda run: run.change_client(rounds_beyond=50),
        unsigned="what all planned rounds would spend",
    ),
    "why a client declined": Forgery(
        declined_for("a power cut"),
        unsigned="the rounds: how many, which were lost, who trained in which, and why others did not",
    ),
    "why the run ended": Forgery(
        of_summary(status="failed", reason="by order of the board"), unsigned="how the run ended, and why"
    ),
    "accuracy and loss": Forgery(
        of_both(accuracy=0.99, loss=0.01, metrics={"accuracy": 0.99}),
        unsigned="losses and metrics, and of which round the model is",
    ),
    "dates": Forgery(
        of_summary(started="2020-01-01T00:00:00+00:00", ended="2020-01-02T00:00:00+00:00"),
        unsigned="dates and times of the run",
    ),
    "versions": Forgery(
        of_summary(versions={"fl-dp": "2.99"}),
        unsigned="versions, and the digests of the server's code and config",
    ),
    "purpose and approval": Forgery(
        lambda run: (run.files.path / "approval.toml").write_text('purpose = "Triage"\n'),
        unsigned=(
            "purpose, operator, legal basis, who gets the model, until when it is kept, who approved and when"
        ),
    ),
}
