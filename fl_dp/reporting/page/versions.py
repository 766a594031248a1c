"""Which programs draw a page: with other versions of them it may look otherwise, byte by byte."""

from fl_dp.errors import ConfigError
from fl_dp.optional import missing_words
from fl_dp.reporting.page.facts import Named
from fl_dp.reporting.provenance import code_digest

PACKAGES = ("fl-dp", "matplotlib", "jinja2")
_CODE = "code of fl-dp"  # between two releases the same version draws other words
_DIGITS = 12


def drawn_by() -> Named:
    """Names and versions; ConfigError, which says what to install, where one is missing."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return (*((name, version(name)) for name in PACKAGES), (_CODE, code_digest()[:_DIGITS]))
    except PackageNotFoundError as error:
        raise ConfigError(missing_words(str(error.name), "a report")) from None
