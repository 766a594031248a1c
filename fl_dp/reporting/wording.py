"""Shared wording of counts and times, and lines that fit a console."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells

LINE = 80  # columns of a console of unknown width
_INDENT = "  "  # of continued lines, and between two parts of one
_MOST_NAMES = 5  # in one line
_DAY, _HOUR, _MINUTE = 86400, 3600, 60


def counted(count: int, noun: str, plural: str = "") -> str:
    """ "1 client", "2 clients", "1,442 clients". plural: for nouns that do not take an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def duration(seconds: float) -> str:
    """ "0.4 s", "12 s", "3 min 20 s", "5 h 10 min", "2 d 3 h"."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, part, name in (
        (_DAY, "d", _HOUR, "h"),
        (_HOUR, "h", _MINUTE, "min"),
        (_MINUTE, "min", 1, "s"),
    ):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {name}"
    return f"{whole} s"


def rough_duration(seconds: float) -> str:
    """An estimate, rounded as a person would: "45 s", "12 min", "3 h 20 min"."""
    if seconds < 90:
        return f"{max(seconds, 0):.0f} s"
    minutes = round(seconds / _MINUTE)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def folded(text: str, width: int = LINE, *, cut: bool = True) -> list[str]:
    """The text in lines of at most `width` columns, each with the text's own indentation.

    It breaks at spaces, and within words that are longer than a line. cut=False: such words stay whole, as
    file paths must, and are longer than a line.
    """
    words = text.lstrip(" ")
    indent = text[: len(text) - len(words)]
    room, lines = width - len(indent), [""]
    for word in words.split(" "):
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines += chop_cells(word, room) if cut else [word]
    return [indent + line for line in lines if line] or [""]


def in_lines(text: str) -> str:
    """As `folded`, joined into one text again. Longer words stay whole."""
    return "\n".join(folded(text, cut=False))


def packed(parts: Sequence[str], width: int = LINE) -> list[str]:
    """The parts side by side, as many as fit in a line; all lines but the first are indented."""
    lines: list[str] = []
    for part in parts:
        if lines and cell_len(lines[-1]) + len(_INDENT) + cell_len(part) <= width:
            lines[-1] += _INDENT + part
        else:
            for one in folded(part, width - len(_INDENT)):
                lines.append(_INDENT * bool(lines) + one)
    return lines


def by_reason(reasons: Iterable[tuple[str, str]]) -> str:
    """ "north, south: no budget; east: no data". reasons: name and reason; empty ones are left out."""
    names: dict[str, list[str]] = {}
    for name, reason in reasons:
        if reason:
            names.setdefault(reason, []).append(name)
    return "; ".join(f"{some(known)}: {reason}" for reason, known in names.items())


def some(names: Sequence[str], most: int = _MOST_NAMES) -> str:
    """The names, or the first few and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def roster_too_small(sites: int, least: int) -> str:
    """Why no round can start, and what to do; empty if the roster has enough sites."""
    if sites >= least:
        return ""
    new = f", or stop this run and start a new one with min-clients = {sites}" if sites else ""
    return (
        f"the roster has {counted(sites, 'site')} and min-clients is {least}, so no round can start: give "
        f"the server's kit a roster with more sites (fl-dp provision){new}"
    )
