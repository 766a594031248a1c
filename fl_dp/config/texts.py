"""Which texts a setting may hold: they name files, appear in reports and are written to other files."""

from pathlib import Path

LONGEST = 4096  # bytes of a path on most systems


def text_problem(text: str) -> str:
    """The problem with a text that no file or path can hold; else empty."""
    if len(text) > LONGEST:
        return f"expected {LONGEST} characters at most"
    if "\0" in text:
        return "expected a text without the character 0"
    try:
        text.encode()
    except UnicodeEncodeError:
        return "expected a text in UTF-8"
    for path in (text, text.partition(":")[2]):
        if path.startswith("~"):
            try:
                Path(path).expanduser()
            except RuntimeError:
                return f"{path.partition('/')[0]} is no user here"
    return ""
