"""The same run without privacy, on public records, to see what privacy costs: `fl-dp run --baseline`."""

from collections.abc import Callable
from dataclasses import replace

from fl_dp.config.run import RunConfig
from fl_dp.config.run_settings import BY_NOISE, DECLARED
from fl_dp.errors import ConfigError
from fl_dp.reporting.console import quality_words
from fl_dp.reporting.page.write import drawn
from fl_dp.reporting.run_files import Run
from fl_dp.reporting.run_folder import RunFolder


def without_privacy(config: RunConfig) -> RunConfig:
    """The config with `privacy = "off"`, and without what is for clipping and noise alone.

    ConfigError unless the records are public, known to be or declared so by `public-data`: of others no
    epsilon would hold any more. ConfigError, too, for settings that there are only with privacy.
    """
    if not config.private:
        raise ConfigError('--baseline: the run is without privacy itself; leave it out, or privacy = "off".')
    from fl_dp.federation.client.registration import is_public  # late: it imports torch

    if not config.public_data and not is_public(config):
        raise ConfigError(
            "--baseline: trains on the same records without any protection, after which no epsilon holds for "
            "them: only for public or synthetic ones, which public-data = true declares. The "
            "best constant prediction costs nothing: each run says at its end what it reaches."
        )
    weights = DECLARED if config.weights == BY_NOISE else config.weights
    try:
        return replace(
            config,
            privacy="off",
            weights=weights,
        )
    except ConfigError as error:
        raise ConfigError(f"--baseline: {error}") from None


def compare(run: RunFolder, say: Callable[[str], None]) -> None:
    """Say how good both are, and write the page of both, `baseline.html`."""
    baseline = RunFolder(run.without_privacy)
    for name, folder in (("with privacy", run), ("without, NOT PRIVATE", baseline)):
        say(f"{name}: {quality_words(Run(folder).summary(whole=True) or {}) or 'not evaluated'}")
    problem = drawn([run, baseline], run.baseline)
    say(problem or f"both side by side in {run.shown / run.baseline.name}; settings are the same for both")
