"""The command `fl-dp audit`."""

import dataclasses
import json
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fl_dp.cli.common import JsonOption, command, say, shipped
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError
from fl_dp.reporting.console import rounded_up

if TYPE_CHECKING:
    from fl_dp.audit.one_run import AuditReport


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
        int,
        typer.Option(help="Number of trainings, each with new coin flips; many come close to epsilon."),
    ] = 1,
    rounds: Annotated[int | None, typer.Option(help="Rounds of a training [default: the config's].")] = None,
    steps: Annotated[int | None, typer.Option(help="Steps in a round [default: the config's].")] = None,
    sample_rate: Annotated[
        float | None, typer.Option(help="Probability that a step draws a record [default: the config's].")
    ] = None,
    noise_multiplier: Annotated[
        list[float] | None,
        typer.Option(
            help="Noise multiplier to audit, one audit for each; repeatable [default: the config's]."
        ),
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="Epsilon to calibrate the noise to.")] = None,
    as_json: JsonOption = False,
) -> int:
    """Attack the training code to test the epsilon that it claims.

    The audit trains the shipped code with canaries: records that a coin flip includes or leaves out. It then
    guesses, from what the client sends, which were included. Right guesses prove a lower bound on epsilon. If
    the bound is above the epsilon in the ledger, that epsilon is wrong.

    Exit code: 0 the bound is not above the claim; 1 it is above, or the audit failed; 2 bad arguments.
    """
    from fl_dp.audit import settings, ways  # late: they import PyTorch, for a second

    audited = partial(
        settings.audit_gradients,
        count=canaries,
        way=ways.Simulated if simulated else ways.Deployed,
        hostile=hostile,
        sample_rate=sample_rate,
        steps=steps,
        runs=runs,
    )
    reports = []
    for one in _configs(config, rounds, noise_multiplier or (), epsilon):
        report = audited(one)
        reports.append(report)
        if not as_json:
            say(_line(report))
    passed = all(report.passed for report in reports)
    if as_json:
        say(json.dumps({"passed": passed, "audits": [report.to_dict() for report in reports]}, indent=2))
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
        f"noise multiplier {report.noise_multiplier:g}: claimed epsilon {rounded_up(report.claimed, 3)} "
        f"at delta {report.delta:g}, by {report.accountant}; {server} at least "
        f"{_found(report)}, at {report.confidence:.0%} confidence, {report.canaries} canaries: {verdict}"
    )


def _found(report: "AuditReport") -> str:
    """The lower bound, rounded down; with several runs also that of the first."""

    def down(epsilon: float) -> str:
        return f"{math.floor(1000 * epsilon) / 1000:.3f}"

    right = f"{report.right} of {report.guesses} guesses right"
    one_run = f"{down(report.found_one_run)} by f-DP (Mahloujifar et al. 2024"
    if report.runs == 1:
        return f"{one_run}; {right})"
    in_runs = f"{down(report.found)} by f-DP in {report.runs} runs ({right})"
    return f"{in_runs}; from the first run alone {one_run})"
