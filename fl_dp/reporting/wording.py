"""Numbers in words, the same wherever they are shown: counts and times."""

_DAY, _HOUR, _MINUTE = 86400, 3600, 60


def counted(count: int, noun: str, plural: str = "") -> str:
    """ "1 client", "2 clients", "1,442 clients". plural: of nouns that do not take an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def duration(seconds: float) -> str:
    """ "0.4 s", "12 s", "3 min 20 s", "5 h 10 min", "2 d 3 h"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, part, name in (
        (_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", 1, "s"),
    ):  # fmt: skip
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {name}"
    return f"{whole} s"


def rough_duration(seconds: float) -> str:
    """Rounded as a person would say it of a guess: "45 s", "12 min", "3 h 20 min"."""
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    minutes = round(seconds / _MINUTE)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
