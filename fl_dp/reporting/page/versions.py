"""Which programs draw a page: with other versions of them it may look otherwise, byte by byte."""

from fl_dp.errors import ConfigError
from fl_dp.optional import missing_words
from fl_dp.reporting.page.facts import Named

PACKAGES = ("fl-dp", "matplotlib", "jinja2")


def drawn_by() -> Named:
    """Names and versions; ConfigError, which says what to install, where one is missing."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return tuple((name, version(name)) for name in PACKAGES)
    except PackageNotFoundError as error:
        raise ConfigError(missing_words(str(error.name), "a report")) from None
