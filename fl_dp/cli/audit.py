"""The command `fl-dp audit`."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fl_dp.cli.common import command, shipped
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError

if TYPE_CHECKING:
    from fl_dp.audit.one_run import AuditReport


Noises = Annotated[
    list[float] | None,
    typer.Option(
        "--noise-multiplier",
        help="Noise multiplier to audit; repeatable, one audit for each [default: the config's].",
    ),
]


@command()
def audit(
    config: Annotated[
        Path | None,
        typer.Option(help="Run config, a flat TOML file [default: the keys' defaults].", callback=shipped),
    ] = None,
    canaries: Annotated[int, typer.Option(help="Number of canaries.")] = 20_000,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Train as a simulated client does, not as a deployed one.")
    ] = False,
    hostile: Annotated[
        bool,
        typer.Option(
            "--hostile",
            help="Assume a server that sends the same weights each time and sees every step.",
        ),
    ] = False,
    runs: Annotated[
        int, typer.Option(help="Number of trainings, each with new coins; many prove nearly all of epsilon.")
    ] = 1,
    rounds: Annotated[int | None, typer.Option(help="Rounds of a training [default: the config's].")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps in a round [default: the config's].")] = None,
    sample_rate: Annotated[
        float | None, typer.Option(help="Probability that a step draws a record [default: the config's].")
    ] = None,
    noise_multiplier: Noises = None,
    epsilon: Annotated[float | None, typer.Option(help="Epsilon to calibrate the noise to.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Attack the training code to test the epsilon that it claims.

    The audit trains the shipped code with canaries: records that a coin includes or leaves out. From what the
    client sends it guesses which were included. Right guesses prove a lower bound on epsilon. If the bound is
    above the epsilon in the ledger, that epsilon is wrong.

    Exit code: 0 the bound is not above the claim; 1 it is, or the audit failed; 2 bad arguments.
    """
    from fl_dp.audit import settings, ways  # late: they import PyTorch, for a second

    way = ways.Simulated if simulated else ways.Deployed
    overrides = settings.Overrides(sample_rate, steps, runs)
    audited = settings.audit_hostile_gradients if hostile else settings.audit_gradients
    reports = []
    for one in _configs(config, rounds, noise_multiplier or (), epsilon):
        report = audited(one, overrides, canaries, way)
        reports.append(report)
        if not as_json:
            print(_line(report), flush=True)
    passed = all(report.passed for report in reports)
    if as_json:
        print(json.dumps({"passed": passed, "audits": [report.to_dict() for report in reports]}, indent=2))
    return 0 if passed else 1


def _configs(
    path: Path | None, rounds: int | None, noises: Sequence[float], epsilon: float | None
) -> list[RunConfig]:
    """The config with the command line's changes, once for each noise multiplier."""
    if noises and epsilon is not None:
        raise ConfigError(
            "--epsilon calibrates the noise and --noise-multiplier sets it; give only one of them."
        )
    config = RunConfig() if path is None else RunConfig.from_toml(path)
    if rounds is not None:
        config = dataclasses.replace(config, rounds=rounds)
    if epsilon is not None:
        config = dataclasses.replace(config, epsilon=epsilon, noise_multiplier="auto")
    return [dataclasses.replace(config, noise_multiplier=noise) for noise in noises] or [config]


def _line(report: "AuditReport") -> str:
    verdict = "passed" if report.passed else "FAILED: the epsilon found is above the claim"
    server = "a hostile server found" if report.hostile else "found"
    return (
        f"noise multiplier {report.noise_multiplier:g}: claimed epsilon "
        f"{report.claimed:.3f} at delta {report.delta:g}, by {report.accountant}; {server} at least "
        f"{_found(report)}, at {report.confidence:.0%} confidence, {report.canaries} canaries: {verdict}"
    )


def _found(report: "AuditReport") -> str:
    """The bound, and with several runs that of the first."""
    right = f"{report.right} of {report.guesses} guesses right"
    one_run = f"{report.found_one_run:.3f} by f-DP (Mahloujifar et al. 2024"
    if report.runs == 1:
        return f"{one_run}; {right})"
    in_runs = f"{report.found:.3f} by f-DP in {report.runs} runs ({right})"
    return f"{in_runs}; from the first run alone {one_run})"
